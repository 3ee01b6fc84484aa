"""The published schema of the admin pages, docs/reference/admin.schema.json, for tests: whatever a test reads is checked."""

import json

from harness import ROOT

try:
    import jsonschema
except ImportError:
    jsonschema = None

# By page; all other pages are text.
DEFINITIONS = {"/config": "config", "/generations": "generations", "/upstreams": "upstreams", "/connections": "connections",
               "/pools": "pools", "/memory": "memory", "/latency": "latency", "/errors": "errors",
               "/log-level": "log_level"}
# Larger ones take too long.
MOST_BYTES = 200_000
_validators = {}


def definition_of(path):
    page = path.split("?")[0]
    return "endpoint" if page.startswith("/upstreams/") else DEFINITIONS.get(page)


def schema(name):
    return json.loads((ROOT / "docs/reference" / name).read_text(encoding="utf-8"))


def _make_validators():
    pages, configuration = schema("admin.schema.json"), schema("sluice.schema.json")
    jsonschema.Draft7Validator.check_schema(pages)
    # The schema of the configuration is a file of its own, with definitions of its own.
    shown = pages["definitions"]["config"]["properties"]
    assert shown["config"] == {"$ref": "sluice.schema.json"}
    shown["config"] = True
    _validators["configuration"] = jsonschema.Draft7Validator(configuration)
    for name in pages["definitions"]:
        _validators[name] = jsonschema.Draft7Validator({**pages, "$ref": f"#/definitions/{name}"})


def problems(path, document):
    """What is wrong with a page, by its schema."""
    if not _validators:
        _make_validators()
    found = list(_validators[definition_of(path)].iter_errors(document))
    if definition_of(path) == "config":
        found += _validators["configuration"].iter_errors(document["config"])
    return [f"{path} {'/'.join(map(str, error.absolute_path))}: {error.message[:300]}" for error in found]


def check(path, text):
    """Fails if the page is not as published."""
    document = json.loads(text)
    if jsonschema and definition_of(path) and len(text) <= MOST_BYTES:
        assert not (wrong := problems(path, document)), "\n".join(wrong)
    return document
