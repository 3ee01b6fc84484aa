"""Scripts of vtest: their commands, and their failures."""

import dataclasses
import pathlib
import re


@dataclasses.dataclass
class Command:
    words: list  # As written, with quotes and braces.

    @property
    def name(self):
        return self.words[0]

    def text(self):
        return " ".join(self.words)

    def specification(self):
        """Index of the last word in braces, or None."""
        return next((index for index in reversed(range(len(self.words))) if self.words[index].startswith("{")), None)


def commands(text):
    """The commands of the outermost level."""
    found, at = [], 0
    row = []
    while at < len(text):
        character = text[at]
        if character == "\n":
            if row:
                found.append(Command(row))
            row, at = [], at + 1
        elif character.isspace():
            at += 1
        elif character == "#" and not row:
            at = (text + "\n").index("\n", at)
        elif text.startswith("\\\n", at):
            at += 2
        else:
            end = word_end(text, at)
            row.append(text[at:end])
            at = end
    if row:
        found.append(Command(row))
    return found


def word_end(text, at):
    if text[at] == '"':
        return re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL).match(text, at).end()
    if text[at] == "{":
        depth = 0
        for end in range(at, len(text)):
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            if depth == 0:
                return end + 1
    return re.compile(r"\S+").match(text, at).end()


def load(path):
    """Its commands, and those of the files that it includes."""
    text = path.read_text(encoding="latin-1").replace("${testdir}", str(path.parent))
    found = []
    for command in commands(text):
        if command.name == "include":
            for word in command.words[1:]:
                found += load(pathlib.Path(path.parent, word.strip('"')))
        else:
            found.append(command)
    return found


@dataclasses.dataclass
class Failure:
    who: str  # c1, s1, h1, top
    run: int  # Which of its runs, from 1.
    line: str  # The command that failed,
    count: int  # its position among those of its kind in this run,
    detail: str  # and the error.

    @property
    def of_an_expectation(self):
        return (self.line.startswith("expect ") and "EXPECT" in self.detail) or self.detail.endswith("instead of WINDOW_UPDATE (8)")


def failure(log):
    """The first failure in the output of vtest -v."""
    last, runs, counts = {}, {}, {}
    for line in log.splitlines():
        found = re.match(r"(\*+|-+)\s+(\S+)\s+(.*)", line)
        if not found:
            continue
        level, who, text = found.groups()
        who = re.sub(r"\.\d+$", "", who)  # Of a stream.
        if text.startswith("=== "):
            last[who] = text[4:].strip()
            counts[who, last[who]] = counts.get((who, last[who]), 0) + 1
        elif re.match("Starting (client|server)", text):
            runs[who] = runs.get(who, 0) + 1
            last[who] = ""
            counts = {key: value for key, value in counts.items() if key[0] != who}
        if level == "----":
            line = last.get(who, "")
            return Failure(who, runs.get(who, 1), line, counts.get((who, line), 1), text.strip())
    return None


def marks(log, mark):
    """The values of this field in the responses to each run of a client."""
    found, runs = {}, {}
    for line in log.splitlines():
        parts = re.match(r"[*-]+\s+(\S+)\s+(.*)", line)
        if not parts:
            continue
        who, text = re.sub(r"\.\d+$", "", parts[1]), parts[2]
        if text.startswith("Starting client"):
            runs[who] = runs.get(who, 0) + 1
        said = re.search(rf"(?:\||\]:? ?){mark} ?: ?(.*)", text)
        if said:
            found.setdefault(case_name(who, runs.get(who, 1)), said[1].removesuffix("\\r").strip())
    return found


def case_name(who, run):
    return f"{who} #{run}" if run > 1 else who


def ended(log):
    """How many runs of each client ended."""
    found = {}
    for who in re.findall(r"(?m)^\*+\s+(\S+)\s+Ending$", log):
        found[who] = found.get(who, 0) + 1
    return found


def without(specification, failed):
    """A specification without the expectation that failed, or, if it is not an expectation, without the command and all
    later ones. None if that is impossible."""
    beginning = failed.line.removesuffix("...") if failed.line.endswith("...") else None
    lines = specification.split("\n")

    def fits(one):
        one = one.strip()
        return one.startswith(beginning) if beginning else one == failed.line

    found = [index for index, one in enumerate(lines) if fits(one)]
    if not found:
        return None
    at = found[min(failed.count, len(found)) - 1]
    if failed.of_an_expectation:
        if lines[at].count("{") != lines[at].count("}"):
            return None
        return "\n".join(one for index, one in enumerate(lines) if index != at)
    cut = lines[:at]
    depth = "\n".join(cut).count("{") - "\n".join(cut).count("}")
    if depth == 1:
        return "\n".join(cut) + "\n}"
    opened = next(one for one in reversed(cut) if "{" in one)
    return "\n".join(cut) + "\n} -run\n}" if depth == 2 and opened.strip().startswith("stream ") else None
