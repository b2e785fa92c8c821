"""The code blocks of a document, and the instructions for tests in the comments before them.

Blocks in the language `sh` contain commands. All commands of a document are run in one shell, in
order, and must succeed. Comments directly before a block, which readers do not see, change this:

<!-- not run: REASON -->   the commands are not run
<!-- run by FILE -->       but each line is in that file, which is run: a test, or a page of one
<!-- file: PATH -->        the block, of any language, is saved there
<!-- prints -->            the commands before print each line of this block; … is any text
<!-- before: COMMANDS -->  run first
<!-- with: A=B -->         A stands for B
<!-- needs: PROGRAM… -->   the document is skipped where one is not installed
"""

import dataclasses
import re
import shlex

MARK = re.compile(r"<!-- (not run|run by|file|prints|before|with|needs)\b:? ?(.*?) ?-->")
COMMAND = re.compile(r"(?:cc|aq\w+|gasnetrun_\w+) (?!.*(?:\[|\.\.\.))")
FENCE = re.compile(r"^( *)(```+)(.*)$")


@dataclasses.dataclass
class Block:
    """A code block: its location, language, text, and marks as (word, text)."""
    where: str
    language: str
    text: str
    marks: list

    def mark(self, word):
        return next((text for name, text in self.marks if name == word), None)

    def marked(self, word):
        return [text for name, text in self.marks if name == word]

    def lines(self):
        """Returns the commands of the block without comments, one per line."""
        joined = self.text.replace("\\\n", " ")
        lines = (" ".join(re.sub(r"(^|\s)#(?!!).*", "", line).split())
                 for line in joined.splitlines())
        return [line for line in lines if line]

    def runs(self):
        return self.language == "sh" and self.mark("not run") is None and \
            self.mark("run by") is None


def read(path, name):
    """Returns all code blocks of a document."""
    blocks, marks, open_fence, body = [], [], None, []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if open_fence:
            if line.strip() == open_fence[1]:
                indent = len(open_fence[0])
                text = "".join(f"{row[indent:] if not row[:indent].strip() else row}\n"
                               for row in body)
                blocks.append(Block(open_fence[2], open_fence[3], text, marks))
                open_fence, marks = None, []
            else:
                body.append(line)
            continue
        fence = FENCE.match(line)
        mark = MARK.fullmatch(line.strip())
        if fence:
            open_fence, body = (fence[1], fence[2], f"{name}:{number}", fence[3].strip()), []
        elif mark:
            marks.append((mark[1], mark[2]))
        elif line.strip():
            marks = []
    return blocks


def manual(folder):
    """Returns the commands in manual pages, as blocks; synopses, which contain brackets or dots,
    are not commands."""
    found = []
    for path in sorted(folder.glob("man[17]/*")):
        page = path.read_text(encoding="utf-8")
        for text in re.findall(r"^\.nf\n(.*?)^\.fi$", page, re.M | re.S):
            text = text.replace("\\-", "-").replace("\\(aq", "'")
            lines = [line for line in text.splitlines() if COMMAND.match(line)]
            if lines:
                found.append(Block(path.name, "sh", "\n".join(lines) + "\n", []))
    return found


def replaced(block):
    """Returns the text of the block with the words of `with` replaced."""
    text = block.text
    for pair in block.marked("with"):
        word, _, other = pair.partition("=")
        if word not in text:
            raise ValueError(f"{block.where}: nothing to replace: {word}")
        text = text.replace(word, other)
    return text


def script(blocks):
    """
    Returns a bash script that runs the blocks, prints a line "@@N" before block N, and at its end
    kills the processes that it has left running.
    """
    lines = ["set -eEo pipefail", "trap 'kill $(jobs -p) 2>/dev/null || :' EXIT"]
    for number, block in enumerate(blocks):
        lines.append(f"echo; echo @@{number}; echo @@{number} >&2")
        place = block.mark("file")
        if place is not None:
            path = place.replace("~", "$HOME") if place[0] == "~" else shlex.quote(place)
            lines.append(f'mkdir -p "$(dirname {path})"; cat >{path} <<\'@@\'\n{block.text}@@')
        elif block.runs():
            lines += [*block.marked("before"), replaced(block)]
    return "\n".join([*lines, "echo", f"echo @@{len(blocks)}", ""])


def outputs(said):
    """Returns the output of each block, by its number."""
    parts = re.split(r"^@@(\d+)\n", said, flags=re.M)
    found = {}
    for number, text in zip(parts[1::2], parts[2::2]):
        found[int(number)] = found.get(int(number), "") + text
    return found


def judge(blocks, said):
    """Returns findings: where the script failed, and expected lines that it did not print."""
    found, last = outputs(said), None
    if len(blocks) not in found:
        at = max(found, default=0)
        tail = "\n".join(found.get(at, said).splitlines()[-30:])
        return [f"{blocks[at].where}: failed; the end of its output:\n{tail}"]
    findings = []
    for number, block in enumerate(blocks):
        if block.mark("prints") is not None:
            for line in block.text.splitlines():
                pattern = "^ *" + ".*".join(map(re.escape, line.strip().split("…"))) + " *$"
                if not re.search(pattern, found[last], re.M):
                    findings.append(f"{block.where}: not printed: {line}\nthe output was:\n"
                                    f"{found[last]}")
        elif block.runs():
            last = number
    return findings
