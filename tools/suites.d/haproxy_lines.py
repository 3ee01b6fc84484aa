"""The words of a configuration of HAProxy: quotes, variables of the environment, conditions, sections."""

import dataclasses
import re

VERSION = (3, 4)  # The reported version: scripts do not expect features of a later one.
# The reported features let as many scripts run as possible; those that are missing then have a name.
FEATURES = {"OPENSSL", "THREAD", "ZLIB", "LINUX_SPLICE", "PCRE2", "POLL", "EPOLL", "GETADDRINFO", "NS", "TFO"}
ENABLED = {"POLL", "EPOLL", "GETADDRINFO", "FAST-FORWARD", "SPLICE"}
OPENSSL = (3, 0, 0)
LIBRARY = "OpenSSL"
ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}


class Unsupported(Exception):
    """Something without a counterpart; the text names it."""


@dataclasses.dataclass
class Section:
    kind: str
    arguments: list
    lines: list


def words(line, environment):
    """One line, without its comment."""
    found, word, quote, at = [], None, None, 0
    while at < len(line):
        character = line[at]
        at += 1
        if quote == "'":
            if character == "'":
                quote = None
            else:
                word += character
        elif character == "\\" and at < len(line):
            escaped = line[at]
            hexadecimal = re.compile("x([0-9a-fA-F]{2})").match(line, at)
            if hexadecimal:
                word, at = (word or "") + chr(int(hexadecimal[1], 16)), at + 3
            else:
                word, at = (word or "") + ESCAPES.get(escaped, escaped), at + 1
        elif quote == '"':
            variable = re.compile(r"\{(\w+)(?:-([^}]*))?\}|(\w+)").match(line, at) if character == "$" else None
            if character == '"':
                quote = None
            elif variable:
                word += environment.get(variable[1] or variable[3]) or variable[2] or ""
                at = variable.end()
            else:
                word += character
        elif character in "'\"":
            quote, word = character, word or ""
        elif character == "#":
            break
        elif character.isspace():
            if word is not None:
                found.append(word)
            word = None
        else:
            word = (word or "") + character
    if quote:
        raise Unsupported(f"quote without an end: {line.strip()}")
    return found + ([word] if word is not None else [])


def true(condition, environment):
    """The condition after `.if` and `-cc`."""
    condition = inner(condition.strip(), environment)
    for operator, together in (("||", any), ("&&", all)):
        if operator in condition:
            return together(true(part, environment) for part in condition.split(operator))
    if condition.startswith("!"):
        return not true(condition[1:], environment)
    if condition in ("", "0", "1"):
        return condition == "1"
    call = re.fullmatch(r"(\w+)(?:\((.*)\))?", condition)
    if not call:
        raise Unsupported(f".if {condition}")
    name, arguments = call[1], [part.strip().strip("\"'") for part in (call[2] or "").split(",")]
    if name == "feature":
        return arguments[0] in FEATURES
    if name in ("version_atleast", "version_before"):
        return (VERSION >= version(arguments[0])) == (name == "version_atleast")
    if name in ("openssl_version_atleast", "openssl_version_before"):
        return (OPENSSL >= version(arguments[0])) == (name == "openssl_version_atleast")
    if name == "ssllib_name_startswith":
        return LIBRARY.startswith(arguments[0])
    if name == "defined":
        return arguments[0] in environment
    if name == "streq":
        return arguments[0] == arguments[1]
    if name == "enabled":
        return arguments[0] in ENABLED
    if name.endswith("_api_atleast") or name == "fips_mode":
        return False
    raise Unsupported(f".if {name}")


def inner(condition, environment):
    """With 0 or 1 in the place of parenthesized groups."""
    group = re.compile(r"(?<!\w)\(((?:[^()]|\w\([^()]*\))*)\)")
    while group.search(condition):
        condition = group.sub(lambda found: str(int(true(found[1], environment))), condition, count=1)
    return condition


def version(text):
    return tuple(int(part) for part in re.findall(r"\d+", text.partition("-")[0]))


KINDS = ("global", "defaults", "frontend", "backend", "listen", "http-errors", "userlist", "resolvers", "peers", "mailers", "cache",
         "program", "ring", "log-forward", "log-profile", "fcgi-app", "crt-store", "traces", "acme", "healthcheck", "dgram-bind")


def sections(text, environment):
    """The sections of a file, with the lines of each `.if` that holds."""
    found, taken = [], []  # taken: for each open .if, whether this branch is, and whether one was.
    for line in re.sub(r"\\\n\s*", " ", text).split("\n"):
        stripped = line.strip()
        if re.match(r"\.(if|elif|else|endif)\b", stripped):
            word, _, condition = stripped.partition(" ")
            condition = re.sub(r'^"(.*)"$', r"\1", condition.split(" #")[0].strip())
            outer = all(now for now, _ in taken)
            if word == ".if":
                holds = outer and true(condition, environment)
                taken.append((holds, holds))
            elif word == ".endif":
                taken.pop()
            else:
                _, before = taken.pop()
                holds = not before and (word == ".else" or true(condition, environment))
                taken.append((holds, before or holds))
            continue
        if not all(now for now, _ in taken):
            continue
        row = words(line, environment)
        if not row or row[0].startswith("."):
            continue
        # `ring` and the like begin a section only with a name and at the left; none of them is a directive.
        if row[0] in KINDS:
            found.append(Section(row[0], row[1:], []))
        elif found:
            found[-1].lines.append(row)
        else:
            raise Unsupported(f"a line outside of sections: {row[0]}")
    return found
