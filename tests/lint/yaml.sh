#!/bin/sh
# YAML files: yamllint has no findings.
# usage: yaml.sh ROOT
set -eu
cd "$1"
if ! command -v yamllint >/dev/null; then
    echo 'skipped: yamllint is not installed [.ci/install-deps.sh all]'
    exit 77
fi
find .github packaging CITATION.cff \( -name '*.yml' -o -name '*.yaml' -o -name '*.cff' \) -exec \
    yamllint --strict -d '{extends: default, rules: {document-start: disable,
        line-length: {max: 110}, truthy: {check-keys: false}}}' {} +
