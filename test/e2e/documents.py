"""What the documents consist of: configurations, transcripts and commands, each with the place where it is written."""

import collections
import re
import shlex

from harness import ROOT

Block = collections.namedtuple("Block", "path line language text")
Command = collections.namedtuple("Command", "place words")

# A block without `listeners:` gets this one, with its first upstream; one without `upstreams:` gets the upstreams that it names.
LISTENER = "listeners: [ {{ name: main, address: 127.0.0.1:8080, tcp: {{ forward: {} }} }} ]\n"
UPSTREAM = "  - {{ name: {}, endpoints: [ 127.0.0.1:9000 ] }}\n"

# Programs of others that the documents call, and ours.
FOREIGN = set("""apt-get bazel cat cd cp curl docker echo export g++ grep grpcurl gzip htpasswd install journalctl kill kubectl mkdir mv openssl pip psql
                 python3 rm sed sleep ss systemctl tail useradd /tmp/envoy/bin/pip""".split())
OURS = re.compile(r"sluice$|(tools|bench|test|build)/\S+$|(cmake|ctest)$")
# What may stand before the program.
PREFIX = re.compile(r"(sudo|setsid)$|[A-Z][A-Z0-9_]*=")


def pages():
    """But for the changelog, which speaks of what is gone, too."""
    return [*sorted(set(ROOT.glob("*.md")) - {ROOT / "CHANGELOG.md"}), *sorted(ROOT.glob("docs/**/*.md"))]


def blocks(path):
    """The fenced blocks of a page."""
    found, begin, language, lines = [], None, "", []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        fence = re.match(r"```(\w*)$", line)
        if begin is None and fence:
            begin, language, lines = number, fence[1], []
        elif begin is not None and line == "```":
            found.append(Block(path, begin, language, "".join(each + "\n" for each in lines)))
            begin = None
        elif begin is not None:
            lines.append(line)
    return found


def configuration(text):
    """A block of YAML as a whole configuration."""
    if not re.search(r"^listeners:", text, re.M):
        name = re.search(r"^upstreams:\n  - (?:\{ )?name: ([\w.-]+)", text, re.M)
        text = LISTENER.format(name[1]) + text if name else text
    if not re.search(r"^upstreams:", text, re.M):
        names = sorted(set(re.findall(r"\bforward: ([\w.-]+)", text)))
        text += "upstreams:\n" + "".join(UPSTREAM.format(name) for name in names) if names else ""
    return text


def configurations():
    """(place, configuration) of each block of YAML."""
    for path in pages():
        for block in blocks(path):
            if block.language == "yaml":
                yield f"{path.relative_to(ROOT)}:{block.line}", configuration(block.text)


def simple_commands(line):
    """The words of each command of a line of shell, without what may stand before it. What is substituted, $(...),
    is one word."""
    lexer = shlex.shlex(re.sub(r"\$\([^()]*\)", "SUBSTITUTED", line), posix=True, punctuation_chars="|&;<>")
    lexer.whitespace_split = True
    command = []
    for word in [*lexer, ";"]:
        if not re.fullmatch("[|&;]+", word):
            command.append(word)
            continue
        while command and PREFIX.match(command[0]):
            command.pop(0)
        if command:
            yield command
        command = []


def command_lines(path):
    """(number, line) of what is shell: indented lines that begin with a program, lines behind `$ ` in blocks of `console`, and
    code in the text that calls a program of this tree. A line that ends with a backslash goes on in the next."""
    fence, kept, kept_at = None, "", 0
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        mark = re.match(r"```(\w*)$", line)
        if mark:
            fence = mark[1] or "text" if fence is None else None
            continue
        shell = None
        if kept:
            shell = line.strip()
        elif fence == "console" and line.startswith("$ "):
            shell = line[2:]
        elif fence is None and re.match(r" {4,}\S", line):
            shell = line.strip()
        elif fence is None:
            for span in re.findall(r"`([^`]+)`", line):
                if re.match(r"(sluice (run|check|explain|schema|version|help)|(tools|bench)/[\w-]+)( |$)", span):
                    yield number, span
        if shell is None:
            continue
        kept_at = kept_at if kept else number
        kept += shell.removesuffix("\\")
        if not shell.endswith("\\"):
            yield kept_at, kept
            kept = ""


def is_command(line):
    """Whether it begins with a program: diagrams and formulas are indented too."""
    program = next((word for word in line.split() if not PREFIX.match(word)), "")
    return program in FOREIGN or bool(OURS.match(program))


def commands():
    """Each call of a program."""
    for path in pages():
        for number, line in command_lines(path):
            if is_command(line):
                for words in simple_commands(line):
                    yield Command(f"{path.relative_to(ROOT)}:{number}", words)
