#!/usr/bin/env python3
"""Packaging files agree with the tree: all of them have its version, and the recipe for Spack
passes CMake options that exist. Spack itself is not run, as Debian does not have it.

usage: packaging.py ROOT
"""

import itertools
import pathlib
import re
import sys
import types

import tree

# Files with the version, each with a pattern that finds it.
VERSIONS = (
    ("meson.build", r"^project\(.* version: '([^']+)'"),
    ("CITATION.cff", r"^version: (.+)$"),
    ("packaging/meson/aqueduct.wrap", r"^directory = aqueduct-(.+)$"),
    ("packaging/meson/aqueduct.wrap", r"^source_url = .*/aqueduct-(.+)\.tar\.gz$"),
    ("packaging/meson/aqueduct.wrap", r"^source_filename = aqueduct-(.+)\.tar\.gz$"),
    ("packaging/rpm/aqueduct.spec", r"^Version: +(.+)$"),
    ("packaging/rpm/aqueduct.spec", r"^%changelog\n\* .* - (.+)-\d+$"),
    ("packaging/spack/packages/aqueduct/package.py", r"^    url = .*/aqueduct-(.+)\.tar\.gz\"$"),
    ("packaging/spack/packages/aqueduct/package.py",
     r"^    version\(\"(\d[^\"]*)\", tag=\"v\1\"\)"),
    ("docs/embedding.md", r"releases/aqueduct-([0-9.]+)\.tar\.gz"),
    ("debian/changelog", r"\Aaqueduct \((?:\d+:)?([^-~+)]+)"),
)


def version_of(root):
    header = (root / "include/aqueduct/version.h").read_text(encoding="utf-8")
    return re.findall(r"#define AQ_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", header)


def check_versions(root):
    numbers = version_of(root)
    version = ".".join(numbers)
    soname = ".".join(numbers[:2] if numbers[0] == "0" else numbers[:1])
    rows = [(name, pattern, version) for name, pattern in VERSIONS]
    rows.append(("packaging/rpm/aqueduct.spec", r"/libaqueduct\.so\.([0-9.]+)$", soname))
    for name, pattern, wanted in rows:
        path = root / name
        found = re.search(pattern, path.read_text(encoding="utf-8"), re.M)
        if not found:
            yield f"{path.relative_to(root)}: no version found: adapt VERSIONS in packaging.py"
        elif found.group(1) != wanted:
            yield f"{path.relative_to(root)}: has {found.group(1)}, but the tree is {wanted} " \
                  "(include/aqueduct/version.h)"


class Recipe:
    """Stands in for Spack's CMakePackage: keeps what the recipe declares."""

    def __init__(self, on):
        self.on = on
        self.spec = types.SimpleNamespace(satisfies=lambda spec: spec.lstrip("+") in on)
        self.prefix = types.SimpleNamespace(lib="/prefix/lib")

    def define(self, name, value):
        return name, value

    def define_from_variant(self, name, variant):
        return name, variant in self.on


def load_recipe(path):
    """The recipe's class, and the variants, versions and conditions that it declares."""
    declared = {name: [] for name in ("conflicts", "depends_on", "generator", "license", "requires",
                                      "variant", "version")}
    names = {name: lambda *args, _name=name, **options: declared[_name].append((args, options))
             for name in declared}
    package = types.ModuleType("spack.package")
    package.__dict__.update(names, CMakePackage=Recipe, join_path=lambda *parts: "/".join(parts))
    sys.modules["spack"] = types.ModuleType("spack")
    sys.modules["spack.package"] = package
    scope = {}
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), scope)
    return scope["Aqueduct"], declared


def check_recipe(root):
    relative = pathlib.Path("packaging/spack/packages/aqueduct/package.py")
    recipe, declared = load_recipe(root / relative)
    cmake = "".join((root / name).read_text(encoding="utf-8")
                    for name in ("cmake/AqOptions.cmake", "tools/aqtop/CMakeLists.txt"))
    options = set(re.findall(r"^(?:option|set)\((AQ_\w+) .*(?:CACHE|\"| \$\{)", cmake, re.M))
    variants = [args[0] for args, _ in declared["variant"]]
    conditions = {word for _, more in declared["depends_on"]
                  for word in re.findall(r"\+(\w+)", more.get("when", ""))}
    for name in sorted(conditions - set(variants)):
        yield f"{relative}: depends_on(…, when=\"+{name}\"): there is no such variant"
    ignored = set()
    for on in itertools.chain.from_iterable(
            itertools.combinations(variants, count) for count in range(len(variants) + 1)):
        package = recipe(set(on))
        given = dict(package.cmake_args())
        for name in sorted(set(given) - options):
            yield f"{relative}: {name} is no option of CMake's (cmake/AqOptions.cmake)"
        ignored |= {variant for variant in variants
                    if given.get("AQ_" + variant.upper()) is not (variant in on)}
        paths = []
        package.setup_run_environment(
            types.SimpleNamespace(prepend_path=lambda *entry: paths.append(entry)))
        if any(not path.startswith("/prefix/lib/") for _, path in paths):
            yield f"{relative}: a path outside of the package: {paths}"
    for name in sorted(ignored):
        yield f"{relative}: variant {name} does not set AQ_{name.upper()}"


def check_addresses(root):
    """The address of releases is the same everywhere. It is a placeholder until there is one."""
    for path in sorted((root / "packaging").rglob("*")):
        if not path.is_file():
            continue
        for address in re.findall(r"https://[^/\s\"]+", path.read_text(encoding="utf-8")):
            if address != "https://aqueduct.example":
                yield f"{path.relative_to(root)}: {address} instead of https://aqueduct.example"


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    findings = list(dict.fromkeys([*check_versions(root), *check_recipe(root),
                                   *check_addresses(root)]))
    tree.report("packaging", findings, len(VERSIONS))


if __name__ == "__main__":
    main()
