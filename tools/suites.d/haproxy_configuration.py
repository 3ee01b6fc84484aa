"""Translates a configuration of HAProxy into one of Sluice. A directive without a counterpart raises an Unsupported
that names it.

Rules with conditions become routes: first the actions of a rule if its condition holds, with the condition in `match`,
then the actions if it does not, since the first matching route is taken.
"""

import copy
import dataclasses
import os
import re
import socket

from haproxy_lines import Unsupported, sections

ROUTES = 300  # More routes only come from conditions that multiply.
# A field in the response to a request that an untranslated rule would affect: it names the rule.
MARK = "x-untranslated"
# Directives without an effect that a client or a server could see, or whose effect is the default here.
NEUTRAL = {
    "global": ("thread-groups", "nbthread", "stats socket", "tune.ssl.default-dh-param", "tune.idle-pool.shared", "log", "daemon",
               "expose-experimental-directives", "insecure-fork-wanted", "tune.ssl.capture-buffer-size", "zero-warning",
               "tune.ssl.cachesize 0", "expose-deprecated-directives",
               "set-dumpable", "ssl-dh-param-file", "log-tag", "log-send-hostname"),
    "proxy": ("log", "option httplog", "option tcplog", "option httpslog", "option dontlognull", "option logasap", "log-tag",
              "option log-health-checks", "option log-separate-errors", "log-format", "log-format-sd", "error-log-format",
              "option splice-auto", "option splice-request", "option splice-response", "option http-keep-alive",
              "option redispatch", "option http-no-delay", "option socket-stats", "option clitcpka", "option srvtcpka",
              "option tcpka", "id", "description", "option contstats", "http-reuse always", "http-reuse safe",
              "http-reuse aggressive", "timeout check", "guid", "enabled", "declare", "capture", "http-request capture"),
    "bind": ("name", "id", "thread", "shards", "process", "backlog", "nice", "guid", "tfo", "defer-accept",
             "level", "no-sslv3", "no-tlsv10", "no-tlsv11"),
    "server": ("id", "tfo", "pool-purge-delay", "pool-low-conn", "no-tfo", "guid", "no-sslv3", "no-tlsv10", "no-tlsv11",
               "no-check", "no-backup", "no-send-proxy", "non-stick", "enabled", "inter", "fastinter", "downinter", "rise", "fall"),
}
BALANCE = {"roundrobin": "round_robin", "static-rr": "round_robin", "leastconn": "least_connections", "random": "random"}


@dataclasses.dataclass
class Proxy:
    name: str = ""
    frontend: bool = False
    backend: bool = False
    mode: str = "tcp"
    binds: list = dataclasses.field(default_factory=list)
    requests: list = dataclasses.field(default_factory=list)  # http-request, redirect, monitor-uri: words, in order.
    responses: list = dataclasses.field(default_factory=list)
    acls: dict = dataclasses.field(default_factory=dict)
    choices: list = dataclasses.field(default_factory=list)  # use_backend
    server_choices: list = dataclasses.field(default_factory=list)  # use-server
    default: str = ""
    servers: list = dataclasses.field(default_factory=list)
    server_defaults: list = dataclasses.field(default_factory=list)
    errors: dict = dataclasses.field(default_factory=dict)  # Status -> Page
    timeouts: dict = dataclasses.field(default_factory=dict)
    options: dict = dataclasses.field(default_factory=dict)  # Without `no`: its arguments; with it: None.
    balance: list = dataclasses.field(default_factory=list)
    compression: dict = dataclasses.field(default_factory=dict)
    checks: list = dataclasses.field(default_factory=list)
    retries: int = 3
    retry_on: list = dataclasses.field(default_factory=list)
    reuse: bool = True
    connections: int = 0
    unsupported: str = ""  # The first of its lines without a counterpart.


@dataclasses.dataclass
class Page:
    status: int
    fields: list
    body: str

    @property
    def content_type(self):
        return next((value for name, value in self.fields if name.lower() == "content-type"), "")


@dataclasses.dataclass
class Path:
    """The known properties of a request within a branch, and the actions so far."""

    secure: bool
    true: tuple = ()
    false: tuple = ()
    changes: tuple = ()  # Of the request's fields.
    answers: tuple = ()  # Of every response.
    responses: tuple = ()  # Of an upstream's response.
    rewrite: tuple = ()
    times: tuple = ()
    variables: tuple = ()  # Name, value.


def page(path):
    """A file with a whole response."""
    with open(path, encoding="latin-1", newline="") as file:
        head, _, body = file.read().replace("\r\n", "\n").partition("\n\n")
    if not head:  # The connection would end without a response, which Sluice never does: the test sees the response.
        return Page(0, [], "")
    first, *rest = head.split("\n")
    fields = [tuple(part.strip() for part in line.split(":", 1)) for line in rest if ":" in line]
    return Page(int(first.split()[1]), fields, body)


def milliseconds(text):
    found = re.fullmatch(r"(\d+)(us|ms|s|m|h|d)?", text)
    if not found:
        raise Unsupported(f"time {text}")
    value = int(found[1]) * {"us": 0.001, "ms": 1, None: 1, "s": 1000, "m": 60000, "h": 3600000, "d": 86400000}[found[2]]
    return max(1, round(value))


def duration(text):
    return f"{milliseconds(text)}ms"


class Translation:

    def __init__(self, text, environment):
        self._environment = environment
        self._proxies, self._pages, self._upstreams = {}, {}, {}
        self._verify_servers = True
        self._bases = {"crt-base": "", "ca-base": ""}
        self._limit = None
        self._named_defaults = {}
        self.listeners = []
        defaults = Proxy()
        for section in sections(text, environment):
            if section.kind == "global":
                self._global(section)
            elif section.kind == "defaults":
                source = section.arguments[section.arguments.index("from") + 1] if "from" in section.arguments else None
                defaults = copy.deepcopy(self._named_defaults[source]) if source else Proxy()
                self._lines(defaults, section)
                if section.arguments and section.arguments[0] != "from":
                    self._named_defaults[section.arguments[0]] = defaults
            elif section.kind in ("frontend", "backend", "listen"):
                self._proxy(section, defaults)
            elif section.kind == "http-errors":
                self._pages[section.arguments[0]] = {
                    int(line[1]): self._page(int(line[1]), line[2]) for line in section.lines if line[0] == "errorfile"}
            else:
                raise Unsupported(section.kind)

    # ---- Reading

    def _page(self, status, path):
        made = page(path)
        return made if made.status else Page(status, [], "")

    def _global(self, section):
        for line in section.lines:
            if line[0] == "ssl-server-verify":
                self._verify_servers = line[1] != "none"
            elif line[0] in self._bases:
                self._bases[line[0]] = line[1]
            elif line[0] == "maxconn":
                self._limit = int(line[1])
            elif line[0] in ("setenv", "presetenv"):
                self._environment[line[1]] = line[2]
            elif not neutral("global", line):
                raise Unsupported(f"global {line[0]}")

    def _proxy(self, section, defaults):
        if not section.arguments:
            raise Unsupported(f"{section.kind} without a name")
        name, *rest = section.arguments
        if rest[:1] == ["from"]:
            defaults = self._named_defaults[rest[1]]
        proxy = copy.deepcopy(defaults)
        proxy.name = name
        proxy.frontend = section.kind in ("frontend", "listen")
        proxy.backend = section.kind in ("backend", "listen")
        self._lines(proxy, section)
        self._proxies[name, proxy.frontend] = self._proxies[name, not proxy.backend] = proxy

    def _lines(self, proxy, section):
        for line in section.lines:
            try:
                self._line(proxy, line)
            except Unsupported as why:
                proxy.unsupported = proxy.unsupported or str(why)

    def _line(self, proxy, line):  # pylint: disable=too-many-branches,too-many-statements
        word = line[0]
        off = word == "no"
        if off:
            line = line[1:]
            word = line[0]
        if word == "mode":
            proxy.mode = line[1]
            if line[1] not in ("http", "tcp"):
                raise Unsupported(f"mode {line[1]}")
        elif neutral("proxy", line):
            pass
        elif word == "bind":
            proxy.binds.append(line[1:])
        elif word in ("http-request", "redirect", "monitor-uri"):
            proxy.requests.append(line)
        elif word in ("http-response", "http-after-response"):
            proxy.responses.append(line)
        elif word == "acl":
            proxy.acls.setdefault(line[1], []).append(line[2:])
        elif word == "use_backend":
            proxy.choices.append(line)
        elif word == "use-server":
            proxy.server_choices.append(line)
        elif word == "default_backend":
            proxy.default = line[1]
        elif word == "server":
            proxy.servers.append((line[1], line[2], proxy.server_defaults + line[3:]))
        elif word == "default-server":
            proxy.server_defaults += line[1:]
        elif word == "errorfile":
            proxy.errors[int(line[1])] = self._page(int(line[1]), line[2])
        elif word == "errorfiles":
            chosen = [int(status) for status in line[2:]] or list(self._pages[line[1]])
            proxy.errors.update({status: self._pages[line[1]][status] for status in chosen})
        elif word == "http-error":
            status = int(line[line.index("status") + 1])
            if line[1:] == ["status", str(status)]:
                proxy.errors[status] = Page(status, [], "")
            else:
                proxy.errors[status] = self._answer(proxy, line[1:], status)
        elif word == "timeout":
            if line[1] not in ("client", "server", "connect", "http-request", "http-keep-alive", "tunnel", "queue"):
                raise Unsupported(f"timeout {line[1]}")
            proxy.timeouts[line[1]] = duration(line[2])
        elif word == "balance":
            proxy.balance = line[1:]
        elif word == "hash-type":
            if line[1] not in ("consistent", "map-based") or line[2:] not in ([], ["sdbm"], ["djb2"]):
                raise Unsupported(f"hash-type {' '.join(line[1:])}")
        elif word == "compression":
            proxy.compression[line[1]] = proxy.compression.get(line[1], []) + line[2:]
        elif word == "retries":
            proxy.retries = int(line[1])
        elif word == "retry-on":
            proxy.retry_on = line[1:]
        elif word == "maxconn":
            proxy.connections = int(line[1])
        elif line == ["http-reuse", "never"]:
            proxy.reuse = False
        elif word in ("http-check", "tcp-check"):
            proxy.checks.append(line)
        elif word == "option":
            if line[1] not in OPTIONS:
                raise Unsupported(f"option {line[1]}")
            proxy.options[line[1]] = None if off else line[2:]
        elif word in ("tcp-request", "tcp-response") and line[1] == "inspect-delay":
            pass  # It only says how long the rules may wait; those are translated separately.
        elif word in ("tcp-request", "tcp-response") and line[2:] == ["accept"]:
            pass
        elif word in ("http-request", "tcp-request", "tcp-response", "stick", "stats"):
            raise Unsupported(" ".join(line[:3 if word.startswith("tcp") else 2]))
        else:
            raise Unsupported(word)

    # ---- Writing

    def result(self):
        listeners = []
        for (_, frontend), proxy in self._proxies.items():
            if not frontend:
                continue
            for bind in proxy.binds:
                for address in bind[0].split(","):
                    listeners.append(self._listener(proxy, f"{proxy.name}{len(listeners)}", address, bind[1:]))
        if not listeners:
            raise Unsupported("no bind")
        for proxy in self._proxies.values():
            if proxy.backend and any("check" in options for _, _, options in proxy.servers):
                self._upstream(proxy)  # Its checks are visible, even if no request goes there.
        made = {"workers": 1, "shutdown_timeout": "0", "listeners": listeners}
        if self._upstreams:
            made["upstreams"] = list(self._upstreams.values())
        if self._limit:
            made["limits"] = {"max_connections": self._limit}
        return made

    def _listener(self, proxy, name, address, options):
        name = re.sub(r"[^\w.-]", "_", name)
        made = {"name": name, "address": self._address(address)}
        if proxy.unsupported and proxy.mode != "http":
            raise Unsupported(proxy.unsupported)
        tls = self._bind(made, options)
        if proxy.connections:
            made["max_connections"] = proxy.connections
        if proxy.mode == "tcp":
            self._tcp(proxy, made)
        else:
            if tls is not None:
                tls.setdefault("alpn", ["h2", "http/1.1"])
            try:
                self._http(proxy, made, tls is not None)
            except Unsupported as why:
                made["http"] = {"routes": self._marked(Path(tls is not None), why)}
        return made

    def _address(self, text):
        descriptor = re.fullmatch(r"(?:stream\+)?fd@(\d+)", text)
        if descriptor:
            text = "{}:{}".format(*socket.socket(fileno=os.dup(int(descriptor[1]))).getsockname()[:2])
        text = re.sub(r"^(stream\+)?(ipv4@)?", "", text)
        if text.startswith(("unix@", "/")):
            return "unix:" + text.removeprefix("unix@")
        if text.startswith("abns@"):
            return "unix:@" + text.removeprefix("abns@")
        if not re.fullmatch(r"([\d.]+|\*|localhost)?:\d+", text):
            raise Unsupported(f"address {text}")
        host, _, port = text.rpartition(":")
        return f"{'0.0.0.0' if host in ('', '*') else host}:{port}"

    def _file(self, base, path):
        return path if path.startswith("/") or not self._bases[base] else os.path.join(self._bases[base], path)

    def _bind(self, made, options):
        """Fills in the listener. Returns its TLS options."""
        tls, secure, left = {"certificates": []}, False, list(options)
        while left:
            option = left.pop(0)
            if option == "ssl":
                secure = True
            elif option == "crt":
                tls["certificates"] += self._certificates(self._file("crt-base", left.pop(0)))
            elif option == "ca-file":
                tls["client_ca"] = self._file("ca-base", left.pop(0))
            elif option == "verify":
                tls["client_certificate"] = {"none": "off", "optional": "request", "required": "require"}[left.pop(0)]
            elif option == "alpn":
                tls["alpn"] = left.pop(0).split(",")
            elif option == "ssl-min-ver":
                tls["min_version"] = version_of_tls(left.pop(0))
            elif option == "no-tls-tickets":
                tls["tickets"] = False
            elif option == "accept-proxy":
                made["proxy_protocol"] = {"accept": "required"}
            elif option == "proto":
                if left[0] not in ("h1", "h2"):
                    raise Unsupported(f"bind proto {left[0]}")
                tls["alpn"] = [{"h1": "http/1.1", "h2": "h2"}[left.pop(0)]]
            elif option == "maxconn":
                made["max_connections"] = int(left.pop(0))
            elif option in NEUTRAL["bind"]:
                if not option.startswith(("no-", "tfo", "defer")):
                    left.pop(0)
            else:
                raise Unsupported(f"bind {option}")
        if not secure:
            return None
        if not tls["certificates"]:
            raise Unsupported("bind ssl without crt")
        if tls.get("client_certificate", "off") == "off":
            tls.pop("client_ca", None)
        made["tls"] = tls
        return tls

    def _certificates(self, path):
        if os.path.isdir(path):
            raise Unsupported("crt of a directory")
        if not os.path.exists(path):
            raise Unsupported(f"crt {os.path.basename(path)}, which is not there")
        key = path + ".key"
        return [{"chain": path, "key": key if os.path.exists(key) else path}]

    def _tcp(self, proxy, made):
        times = [milliseconds(proxy.timeouts[name]) for name in ("client", "server") if name in proxy.timeouts]
        tcp = made["tcp"] = {"idle_timeout": f"{min(times)}ms"} if times else {}
        if proxy.requests or proxy.responses or proxy.errors:
            raise Unsupported("HTTP in mode tcp")
        routes = []
        default = proxy.default or (proxy.name if proxy.backend else "")
        for line in proxy.choices:
            name, condition = choice(line)
            if not condition:
                default = name
                break
            for names in self._server_names(proxy, condition):
                routes.append({"match": {"sni": names}, "forward": self._upstream(self._backend(name))})
        if default:
            routes.append({"forward": self._upstream(self._backend(default))})
        if not routes:
            raise Unsupported("a frontend without a backend")
        tcp["routes"] = routes

    def _server_names(self, proxy, condition):
        for part in disjunction(condition, proxy.acls):
            if part[0] != "req.ssl_sni" or part[1]:
                raise Unsupported(f"in mode tcp: {{ {' '.join(part[:1])} }}")
            yield part[2]

    def _backend(self, name):
        if "%" in name:
            raise Unsupported("use_backend with a variable")
        found = self._proxies.get((name, False))
        if found is None or not found.backend:
            raise Unsupported(f"a backend that is not there: {name}")
        return found

    # HTTP

    def _http(self, proxy, made, secure):
        http = made["http"] = {
            "via": "", "forwarded_for": "off", "allow_connect": True,
            "http1": {"max_requests": 0, "allow_underscores": True},
            # As permissive as possible: HAProxy forwards paths unchanged.
            "paths": {"escaped_slashes": "keep", "allow_backslashes": True, "allow_dot_parameters": True},
        }
        times = proxy.timeouts
        if "client" in times:
            http.update({name: times["client"] for name in ("header_timeout", "body_timeout", "send_timeout", "idle_timeout")})
        if "http-request" in times:
            http["header_timeout"] = times["http-request"]
        if "http-keep-alive" in times:
            http["idle_timeout"] = times["http-keep-alive"]
        if "tunnel" in times:
            http["tunnel_timeout"] = times["tunnel"]
        server = next((self._proxies[found, False].timeouts.get("server") for found in self._reached(proxy)), times.get("server"))
        if server:
            http["stream_idle_timeout"] = f"{milliseconds(server) + 1000}ms"  # So that response_timeout expires first.
        if any("forwardfor" in holder.options for holder in (proxy, *(self._proxies[f, False] for f in self._reached(proxy)))):
            # A listener has one setting, so that the option of one backend applies to all of them.
            http["forwarded_for"] = "append"
        for name in ("forwardfor", "forwarded"):
            arguments = [argument for holder in (proxy, *(self._proxies[found, False] for found in self._reached(proxy)))
                         for argument in holder.options.get(name) or ()]
            if arguments:
                raise Unsupported(f"option {name} {arguments[0]}")
        if any("forwarded" in holder.options for holder in (proxy, *(self._proxies[f, False] for f in self._reached(proxy)))):
            http["forwarded"] = "append"
        if "httpclose" in proxy.options:
            http["http1"]["max_requests"] = 1
        if proxy.options.get("abortonclose", []) is None:
            http["http1"]["half_close"] = "allow"
        restriction = (proxy.options.get("http-restrict-req-hdr-names") or ["preserve"])[0]
        if restriction == "delete":
            raise Unsupported("option http-restrict-req-hdr-names delete")
        http["http1"]["allow_underscores"] = restriction == "preserve"
        compression = self._compression(proxy)
        if compression:
            http["compression"] = compression
        errors = {**proxy.errors}
        for found in self._reached(proxy):
            errors.update(self._proxies[found, False].errors)
        if errors:
            # The type is the only one of its fields that can be set here.
            http["errors"] = [{"status": status, "body": answer.body or "\n", "content_type": answer.content_type or "text/html"}
                              for status, answer in errors.items() if status >= 400]
            if not http["errors"]:
                del http["errors"]
        path = Path(secure)
        if compression and "offload" in proxy.compression:
            path = dataclasses.replace(path, changes=({"name": "accept-encoding", "remove": True},))
        path = self._answers(proxy, path)
        routes = self._requests(proxy, list(proxy.requests), path,
                                lambda reached: self._choices(proxy, list(proxy.choices), reached))
        if len(routes) > ROUTES:
            raise Unsupported("conditions that multiply")
        http["routes"] = routes

    def _reached(self, proxy):
        """The names of the backends that it may choose."""
        names = [choice(line)[0] for line in proxy.choices] + [proxy.default or (proxy.name if proxy.backend else "")]
        return [name for name in names if (name, False) in self._proxies and self._proxies[name, False].backend]

    def _compression(self, proxy):
        holders = [proxy, *(self._proxies[found, False] for found in self._reached(proxy))]
        found = next((holder.compression for holder in holders if holder.compression), None)
        if not found:
            return None
        if set(found) - {"algo", "type", "offload", "algo-res", "type-res", "direction"}:
            raise Unsupported(f"compression {min(set(found) - {'algo', 'type', 'offload'})}")
        if found.get("direction", ["response"]) != ["response"]:
            raise Unsupported("compression direction")
        if "gzip" not in found.get("algo", []) + found.get("algo-res", []):
            raise Unsupported(f"compression algo {' '.join(found.get('algo', []) + found.get('algo-res', []))}")
        types = found.get("type", []) + found.get("type-res", []) or ["text", "application", "image", "audio", "video"]
        proxy.compression.update(found)
        return {"codings": ["gzip"], "min_size": 0, "types": [known if "/" in known else known + "/*" for known in types]}

    def _marked(self, path, why):
        return [self._route(path, answers=[{"name": MARK, "set": str(why).replace("%", "%%")}],
                            respond={"status": 501, "body": f"{MARK}: {why}\n"})]

    def _requests(self, proxy, rules, path, then):
        """The routes for the rules' actions on a request of this branch; `then` follows them."""
        if proxy.unsupported:
            return self._marked(path, proxy.unsupported)
        if not rules:
            return then(path)
        try:
            return self._rule(proxy, rules, path, then)
        except Unsupported as why:
            # For the condition or for the action; later routes are translated separately.
            return self._marked(path, why)

    def _rule(self, proxy, rules, path, then):  # pylint: disable=too-many-return-statements,too-many-branches
        line, rest = rules[0], rules[1:]
        if line[0] == "monitor-uri":
            if not line[1].startswith("/"):
                raise Unsupported("monitor-uri of a whole URI")
            return self._when(proxy, [["path", False, [line[1]], "exact"]], path,
                              lambda found: [self._route(found, respond={"status": 200, "body": "OK\n"})],
                              lambda found: self._requests(proxy, rest, found, then))
        action, condition = split_condition(line if line[0] == "redirect" else line[1:])

        def go_on(changed):
            return self._requests(proxy, rest, changed, then)

        def when(positive):
            return self._conditional(proxy, condition, path, positive, go_on)

        name = action[0]
        try:
            return self._action(proxy, name, action, when, then, go_on)
        except Unsupported as why:
            message = why
            return when(lambda found: self._marked(found, message))

    def _action(self, proxy, name, action, when, then, go_on):  # pylint: disable=too-many-return-statements
        if name == "redirect":
            self._redirect(Path(False), action[1:])
            return when(lambda found: [self._redirect(found, action[1:])])
        if name in ("deny", "return"):
            status = next((int(action[action.index(word) + 1]) for word in ("deny_status", "status") if word in action),
                          200 if name == "return" else 403)
            answer = self._answer(proxy, action[1:], status)
            return when(lambda found: [self._respond(found, answer)])
        if name == "allow":
            return when(then)
        if name in ("set-header", "add-header", "del-header"):
            changed = self._change(action)
            return when(lambda found: go_on(self._changed(found, changed)))
        variable = re.fullmatch(r"set-var\(([\w.]+)\)", name)
        if variable:
            value = fetched(" ".join(action[1:]))
            if value.startswith(MARK) or "\0" in value:
                raise Unsupported(f"http-request {name}")
            return when(lambda found: go_on(dataclasses.replace(
                found, variables=(*(pair for pair in found.variables if pair[0] != variable[1]), (variable[1], value)))))
        if name == "set-path" and "%" not in action[1] and "?" not in action[1]:
            return when(lambda found: go_on(dataclasses.replace(found, rewrite=(*found.rewrite, ("path", action[1])))))
        if name == "replace-path":
            # After an expression that is not marked as a prefix, anything may follow: here it matches the whole path.
            expression = action[1]
            if not (expression.startswith(("^", "(.*)")) or expression.endswith(("$", "(.*)"))):
                raise Unsupported("http-request replace-path of a part")
            made = (("regex", expression.strip("^$")), ("substitution", action[2]))
            return when(lambda found: go_on(dataclasses.replace(found, rewrite=(*found.rewrite, *made))))
        if name == "set-timeout":
            if not re.fullmatch(r"\d+\w*", action[2]) or action[1] not in ("server",):
                how = "" if re.match("[0-9]", action[2]) else " by an expression"
                raise Unsupported(f"http-request set-timeout {action[1]}{how}")
            made = ("response_timeout", duration(action[2])), ("stream_idle_timeout", f"{milliseconds(action[2]) + 1000}ms")
            return when(lambda found: go_on(dataclasses.replace(found, times=made)))
        raise Unsupported(f"http-request {name}")

    def _choices(self, proxy, choices, path):
        try:
            return self._chosen(proxy, choices, path)
        except Unsupported as why:
            return self._marked(path, why)

    def _chosen(self, proxy, choices, path):
        if choices:
            name, condition = choice(choices[0])
            return self._conditional(proxy, condition, path, lambda found: self._to(proxy, name, found),
                                     lambda found: self._choices(proxy, choices[1:], found))
        default = proxy.default or (proxy.name if proxy.backend else "")
        if not default:
            return [self._respond(path, self._answer(proxy, [], 503))]
        return self._to(proxy, default, path)

    def _to(self, frontend, name, path):
        backend = self._backend(name)
        rules = []
        if backend is not frontend:
            path = self._answers(backend, path)
            rules = list(backend.requests)
        return self._requests(backend, rules, path, lambda found: self._forward(backend, found))

    def _answers(self, proxy, path):
        """With the changes of http-response and http-after-response."""
        for line in proxy.responses:
            action, condition = split_condition(line[1:])
            if condition not in ([], ["if", "TRUE"]):
                raise Unsupported(f"{line[0]} {action[0]} with a condition")
            if action[0] not in ("set-header", "add-header", "del-header"):
                raise Unsupported(f"{line[0]} {action[0]}")
            change = with_variables(self._change(action), path)
            if line[0] == "http-response":
                path = dataclasses.replace(path, responses=(*path.responses, change))
            else:
                path = dataclasses.replace(path, answers=(*path.answers, change))
        return path

    def _forward(self, backend, path):
        try:
            return self._servers(backend, list(backend.server_choices), path)
        except Unsupported as why:
            return self._marked(path, why)

    def _servers(self, backend, choices, path):
        if choices:
            name, condition = choice(choices[0])
            return self._conditional(backend, condition, path,
                                     lambda found: [self._forward_to(backend, found, name)],
                                     lambda found: self._servers(backend, choices[1:], found))
        return [self._forward_to(backend, path)]

    def _forward_to(self, backend, path, only=None):
        if not backend.servers:
            return self._respond(path, self._answer(backend, [], 503))
        made = {"forward": self._upstream(backend, only)}
        rewrite = dict(path.rewrite)
        host = [change for change in path.changes if change["name"].lower() == "host"]
        if host:
            if "set" not in host[-1] or "%" in host[-1]["set"]:
                raise Unsupported("http-request set-header host with a variable")
            rewrite["host"] = host[-1]["set"]
        if rewrite:
            made["rewrite"] = rewrite
        made.update(dict(path.times))
        if "http-buffer-request" in backend.options:
            made["buffer"] = {"requests": "16KiB"}
        if backend.retry_on:
            known = {"conn-failure": ["connect_failure"], "empty-response": ["reset"], "response-timeout": ["timeout"],
                     "junk-response": ["reset"], "0rtt-rejected": [],
                     "all-retryable-errors": ["connect_failure", "reset", "timeout", "5xx"], "none": []}
            strange = [word for word in backend.retry_on if word not in known]
            if strange:
                raise Unsupported(f"retry-on {strange[0]}")
            made["retry"] = {"on": sorted({found for word in backend.retry_on for found in known[word]}),
                             "attempts": min(10, backend.retries + 1), "backoff": "0"}
        changes = [change for change in path.changes if change["name"].lower() != "host"]
        if changes:
            made["request_headers"] = changes
        return self._route(path, answers=(*path.responses, *path.answers), **made)

    def _conditional(self, proxy, condition, path, positive, negative):
        if not condition:
            return positive(path)
        atoms = expression(condition, proxy.acls)
        return self._when(proxy, atoms, path, positive, negative)

    def _when(self, proxy, found, path, positive, negative):
        """`found`: an atom [name, ...], or ["or"/"and", a, b], ["not", a]."""
        if len(found) == 1:
            found = found[0]
        kind = found[0]
        if kind == "not":
            return self._when(proxy, found[1], path, negative, positive)
        if kind == "and":
            return self._when(proxy, found[1], path, lambda p: self._when(proxy, found[2], p, positive, negative), negative)
        if kind == "or":
            return self._when(proxy, found[1], path, positive, lambda p: self._when(proxy, found[2], p, positive, negative))
        if kind == "always":
            return (positive if found[1] else negative)(path)
        if kind == "ssl_fc":
            return (positive if path.secure else negative)(path)
        if kind.startswith("var "):
            value = dict(path.variables).get(kind[4:])
            if value != "%{path}":
                raise Unsupported("condition var")
            found = ["path", *found[1:]]
        atom = repr(found)
        if atom in path.true:
            return positive(path)
        if atom in path.false or not possible(found, path.true):
            return negative(path)
        return (positive(dataclasses.replace(path, true=(*path.true, atom)))
                + negative(dataclasses.replace(path, false=(*path.false, atom))))

    # Routes.

    def _route(self, path, answers=None, **made):
        match = {}
        for atom in path.true:
            match_atom(match, eval(atom, {"__builtins__": {}}))  # pylint: disable=eval-used  # Of our own repr().
        route = {"match": match} if match else {}
        route.update(made)
        changes = [change for change in (path.answers if answers is None else answers)]
        if changes:
            route["response_headers"] = changes
        return route

    def _respond(self, path, answer):
        if answer.status >= 600 or answer.status < 200:
            raise Unsupported(f"an answer of {answer.status}")
        respond = {"status": answer.status, "body": answer.body}
        if answer.content_type:
            respond["content_type"] = answer.content_type
        own = tuple(with_variables({"name": name, "add": value}, path) for name, value in answer.fields
                    if name.lower() not in ("content-type", "content-length", "connection"))
        return self._route(path, answers=(*own, *path.answers), respond=respond)

    def _redirect(self, path, words_):
        kind, value, rest = words_[0], words_[1], words_[2:]
        made = {"status": 302}
        while rest:
            option = rest.pop(0)
            if option == "code":
                made["status"] = int(rest.pop(0))
            elif option == "drop-query":
                made["drop_query"] = True
            else:
                raise Unsupported(f"redirect {option}")
        if "%" in value:
            raise Unsupported("redirect with a variable")
        if kind == "scheme":
            made["scheme"] = value
        elif kind in ("location", "prefix"):
            whole = re.fullmatch(r"(?:(https?)://([^/:?]+)(?::(\d+))?)?(/[^?]*)?", value)
            if not whole:
                raise Unsupported(f"redirect {kind} {value}")
            made.update({name: part for name, part in zip(("scheme", "host"), whole.groups()) if part})
            if whole[3]:
                made["port"] = int(whole[3])
            if kind == "location":
                made.update(path=whole[4] or "/", drop_query=True)
            elif whole[4] not in (None, "/"):
                made.update(regex="(.*)", substitution=whole[4].rstrip("/") + r"\1")
        else:
            raise Unsupported(f"redirect {kind}")
        return self._route(path, redirect=made)

    def _change(self, action):
        name = action[1]
        if action[0] == "del-header":
            if len(action) > 2:
                raise Unsupported("del-header -m")
            return {"name": name, "remove": True}
        return {"name": name, action[0].removesuffix("-header"): template(action[2])}

    def _changed(self, path, change):
        return dataclasses.replace(path, changes=(*path.changes, with_variables(change, path)))

    def _answer(self, proxy, arguments, status):
        """For `return`, `deny` and `http-error`, whose arguments are the same."""
        made, left, own = Page(status, [], ""), list(arguments), False
        while left:
            word = left.pop(0)
            if word in ("status", "deny_status"):
                left.pop(0)
            elif word == "content-type":
                made.fields.append(("content-type", left.pop(0)))
            elif word == "hdr":
                made.fields.append((left.pop(0), template(left.pop(0))))
            elif word in ("string", "lf-string"):  # Variables in it remain as they are: the test sees them.
                made.body, own = left.pop(0), True
            elif word in ("file", "lf-file"):
                with open(left.pop(0), encoding="latin-1") as file:
                    made.body, own = file.read(), True
            elif word == "errorfile":
                return self._page(status, left.pop(0))
            elif word in ("errorfiles", "default-errorfiles"):
                pages = proxy.errors if word == "default-errorfiles" else self._pages[left.pop(0)]
                if status in pages:
                    return pages[status]
            else:
                raise Unsupported(f"an answer with {word}")
        if not own and status in proxy.errors and not made.fields:
            return proxy.errors[status]
        if not own and status >= 400 and not made.fields:
            made.body = f"<html><body><h1>{status}</h1></body></html>\n"
            made.fields.append(("content-type", "text/html"))
        return made

    # Upstreams.

    def _upstream(self, backend, only=None):
        if backend.unsupported:
            raise Unsupported(backend.unsupported)
        servers = [server for server in backend.servers if only in (None, server[0])]
        if not servers:
            raise Unsupported(f"a server that is not there: {only}" if only else "a backend without servers in mode tcp")
        name = re.sub(r"[^\w.-]", "_", backend.name + (f".{only}" if only else ""))
        if name in self._upstreams:
            return name
        made = {"name": name, "endpoints": [], "max_fails": 0}
        kinds = set()
        for server in servers:
            endpoint, shared = self._server(backend, server)
            kinds.add(repr(shared))
            made.update(shared)
            if endpoint:
                made["endpoints"].append(endpoint)
        if len(kinds) > 1:
            raise Unsupported("servers of different options in one backend")
        if not made["endpoints"]:
            raise Unsupported("a backend whose servers are disabled")
        times = backend.timeouts
        if "connect" in times:
            made["connect_timeout"] = times["connect"]
        if "server" in times and backend.mode == "http":
            made["response_timeout"] = times["server"]
        made["connect_attempts"] = max(1, min(100, backend.retries + 1))
        if not backend.reuse or "http-server-close" in backend.options or "httpclose" in backend.options:
            made["pool"] = {"max_idle": 0}
        if "queue" in times and "max_connections_per_endpoint" in made:
            raise Unsupported("timeout queue")  # It only matters there.
        if backend.mode == "tcp" and (backend.server_choices or backend.retry_on):
            raise Unsupported("use-server or retry-on in mode tcp")
        self._balance(backend, made)
        self._upstreams[name] = made
        return name

    def _balance(self, backend, made):
        policy = (backend.balance or ["roundrobin"])[0]
        name = policy.partition("(")[0]
        if name in BALANCE:
            made["balance"] = BALANCE[name]
        elif len(made["endpoints"]) == 1:
            pass
        else:  # Including hashes: the scripts know which server HAProxy's own hash would choose.
            raise Unsupported(f"balance {name}")

    def _server(self, backend, server):
        name, address, options = server
        endpoint, made, tls, check, secure = {}, {}, {}, {}, False
        verify = self._verify_servers
        left, times = list(options), {}
        while left:
            option = left.pop(0)
            if option == "weight":
                endpoint["weight"] = int(left.pop(0))
            elif option == "backup":
                endpoint["priority"] = 1
            elif option == "disabled":
                endpoint["weight"] = 0
            elif option == "maxconn":
                made["max_connections_per_endpoint"] = int(left.pop(0))
            elif option == "ssl":
                secure = True
            elif option == "verify":
                verify = left.pop(0) == "required"
            elif option == "ca-file":
                tls["ca"] = self._file("ca-base", left.pop(0))
            elif option == "crt":
                tls["certificate"] = self._certificates(self._file("crt-base", left.pop(0)))[0]
            elif option == "sni":
                found = re.fullmatch(r"str\(([^)]*)\)", left.pop(0))
                if not found:
                    raise Unsupported("server sni by an expression")
                tls["server_name"] = found[1]
            elif option == "verifyhost":
                tls["server_name"] = left.pop(0)
            elif option == "alpn":
                offered = left.pop(0)
                if offered not in ("h2", "http/1.1"):
                    raise Unsupported(f"server alpn {offered}")
                tls["alpn"] = [offered]
            elif option == "ssl-min-ver":
                tls["min_version"] = version_of_tls(left.pop(0))
            elif option == "proto":
                protocol = left.pop(0)
                if protocol not in ("h1", "h2"):
                    raise Unsupported(f"server proto {protocol}")
                made["protocol"] = {"h1": "http1", "h2": "http2"}[protocol]
            elif option in ("send-proxy", "send-proxy-v2", "send-proxy-v2-ssl", "send-proxy-v2-ssl-cn"):
                if backend.mode == "http":
                    raise Unsupported(f"server {option} in mode http")
                made["send_proxy_protocol"] = "v1" if option == "send-proxy" else "v2"
            elif option == "check":
                check["on"] = True
            elif option in ("inter", "rise", "fall", "fastinter", "downinter"):
                times[option] = left.pop(0)
            elif option == "port":
                check["port"] = int(left.pop(0))
            elif option == "slowstart":
                made["slow_start"] = duration(left.pop(0))
            elif option == "pool-max-conn":
                made["pool"] = {"max_idle": max(0, int(left.pop(0)))}
            elif option in NEUTRAL["server"]:
                if not option.startswith(("no-", "tfo", "non-", "enabled")):
                    left.pop(0)
            else:
                raise Unsupported(f"server {option}")
        if check:
            made["health_check"] = self._check(backend, check, times)
        if secure:
            if tls.get("alpn") == ["h2"]:
                made["protocol"] = "http2"
            if verify and "server_name" not in tls:
                raise Unsupported("server ssl verify without a name")
            made["tls"] = {"verify": verify, **tls}
            if not verify:
                made["tls"].pop("ca", None)
        if endpoint.get("weight", 1) == 0:
            return None, made
        return {"address": self._address(address), **endpoint}, made

    def _check(self, backend, check, times):
        made = {"interval": duration(times.get("inter", "2s")), "timeout": "2s", "healthy_after": int(times.get("rise", "2")),
                "unhealthy_after": int(times.get("fall", "3"))}
        if "port" in check:
            made["port"] = check["port"]
        if "httpchk" in backend.options:
            arguments = backend.options["httpchk"] or []
            if len(arguments) > 1 and arguments[0] not in ("GET",):
                raise Unsupported(f"option httpchk {arguments[0]}")
            http = made["http"] = {"path": next((word for word in arguments if word.startswith("/")), "/")}
            for line in backend.checks:
                if line[:4] == ["http-check", "expect", "status", line[-1]] and line[-1].isdigit():
                    http["status"] = [int(line[-1])]
                elif line[:3] == ["http-check", "expect", "string"]:
                    http["body"] = line[3]
                else:
                    raise Unsupported(" ".join(line[:3]))
        elif backend.checks:
            raise Unsupported(" ".join(backend.checks[0][:2]))
        return made


OPTIONS = ("forwardfor", "forwarded", "httpclose", "http-server-close", "abortonclose", "http-restrict-req-hdr-names", "httpchk",
           "http-buffer-request", "tcp-check")
ALWAYS = {"TRUE": True, "FALSE": False, "always_true": True, "always_false": False, "HTTP": True, "WAIT_END": True}
METHODS = {"METH_GET": ["GET", "HEAD"], "METH_POST": ["POST"], "METH_HEAD": ["HEAD"], "METH_OPTIONS": ["OPTIONS"],
           "METH_PUT": ["PUT"], "METH_DELETE": ["DELETE"], "METH_CONNECT": ["CONNECT"], "METH_TRACE": ["TRACE"]}
WAYS = {"beg": "prefix", "end": "suffix", "sub": "contains", "reg": "regex", "str": "exact", "found": "found"}


def neutral(where, line):
    return any((" ".join(line) + " ").startswith(known + " ") for known in NEUTRAL[where])


def version_of_tls(text):
    if text not in ("TLSv1.2", "TLSv1.3"):
        raise Unsupported(f"ssl-min-ver {text}")
    return text.removeprefix("TLSv")


def split_condition(line):
    at = next((index for index, word in enumerate(line) if word in ("if", "unless")), len(line))
    return line[:at], line[at:]


def choice(line):
    action, condition = split_condition(line[1:])
    return action[0], condition


def expression(condition, acls):
    """`if` or `unless` and words: nested lists of or, and, not, atoms."""
    word, *rest = condition
    alternatives, current, negative, at = [], None, False, 0
    while at < len(rest):
        token = rest[at]
        at += 1
        if token in ("||", "or"):
            alternatives.append(current)
            current = None
            continue
        while token.startswith("!"):
            negative, token = not negative, token[1:]
            if not token:
                token = rest[at]
                at += 1
        if token == "{":
            end = rest.index("}", at)
            found = atom_of(rest[at:end])
            at = end + 1
        else:
            found = named(token, acls)
        if negative:
            found, negative = ["not", found], False
        current = found if current is None else ["and", current, found]
    alternatives.append(current)
    whole = alternatives[0]
    for other in alternatives[1:]:
        whole = ["or", whole, other]
    return ["not", whole] if word == "unless" else whole


def disjunction(condition, acls):
    """The atoms of a condition that consists of alternatives only."""
    found = [expression(condition, acls)]
    while any(part[0] == "or" for part in found):
        found = [inner for part in found for inner in (part[1:] if part[0] == "or" else [part])]
    for part in found:
        if part[0] in ("and", "not"):
            raise Unsupported("in mode tcp: a condition of several")
    return found


def named(name, acls):
    if name in acls:
        found = [atom_of(line) for line in acls[name]]
        whole = found[0]
        for other in found[1:]:
            whole = ["or", whole, other]
        return whole
    if name in ALWAYS:
        return ["always", ALWAYS[name]]
    if name in METHODS:
        return ["method", False, METHODS[name], "exact"]
    raise Unsupported(f"acl {name}")


def atom_of(words_):
    """[what, case-insensitive, values, how], of `{ fetch flags values }`."""
    fetch, *rest = words_
    ignore, way, values = False, None, []
    while rest:
        word = rest.pop(0)
        if word == "-i":
            ignore = True
        elif word == "-m":
            way = rest.pop(0)
        elif word == "--":
            values += rest
            break
        elif word in ("-f", "-M", "-n", "-u"):
            raise Unsupported(f"acl {word}")
        else:
            values.append(word)
    if fetch in ALWAYS:
        return ["always", ALWAYS[fetch]]
    if fetch == "ssl_fc":
        return ["ssl_fc"]
    call = re.fullmatch(r"([\w.]+?)(?:_(beg|end|sub|reg))?(?:\((.*)\))?", fetch)
    if not call or "," in fetch:
        raise Unsupported(f"condition {fetch}")
    name, argument = call[1], (call[3] or "").strip("\"'")
    way = WAYS.get(way or call[2] or "str")
    if way is None:
        raise Unsupported(f"condition {fetch} -m")
    if name in ("path", "method", "src", "req.ssl_sni"):
        kind = name
    elif name in ("req.hdr", "hdr", "req.fhdr"):
        kind = "header " + argument.lower()
    elif name == "var":
        kind = "var " + argument
    elif name in ("url_param", "urlp"):
        kind = "query " + argument
    else:
        raise Unsupported(f"condition {name}")
    if not values and way != "found":
        raise Unsupported(f"condition {fetch} without a value")
    if kind == "req.ssl_sni":
        return [kind, False, values]
    if way == "regex" or ignore:
        if len(values) > 1:
            raise Unsupported("several expressions in one condition")
    if kind.startswith(("header", "query")) and len(values) > 1:
        whole = [kind, ignore, values[:1], way]
        for value in values[1:]:
            whole = ["or", whole, [kind, ignore, [value], way]]
        return whole
    if (kind == "path" or kind.startswith("var ")) and len(values) > 1:
        whole = [kind, ignore, values[:1], way]
        for value in values[1:]:
            whole = ["or", whole, [kind, ignore, [value], way]]
        return whole
    return [kind, ignore, values, way]


def quoted(text):
    return re.sub(r"([^\w/\- ])", r"\\\1", text)


def whole(value, way, ignore):
    """A regular expression for a whole value."""
    case = "(?i)" if ignore else ""
    if way == "regex":
        return case + ("" if value.startswith("^") else ".*") + f"(?:{value.lstrip('^').removesuffix('$')})" \
            + ("" if value.endswith("$") else ".*")
    before, after = ("" if way in ("exact", "prefix") else ".*"), ("" if way in ("exact", "suffix") else ".*")
    return case + before + quoted(value) + after


def possible(found, true):
    """Whether it can hold in addition to the conditions that hold: two different paths exclude each other."""
    if found[0] != "path":
        return True
    for atom in true:
        other = eval(atom, {"__builtins__": {}})  # pylint: disable=eval-used  # Of our own repr().
        if other[0] == "path" and other[3] == found[3] == "exact" and not other[1] and not found[1] and other[2] != found[2]:
            return False
    return True


def match_atom(match, atom):
    kind, ignore, values, way = atom
    if kind == "path":
        if "path" in match:
            raise Unsupported("two conditions on one path")
        value = values[0]
        if way == "exact" and not ignore:
            match["path"] = {"exact": value}
        elif way == "prefix" and not ignore and value.endswith("/"):
            match["path"] = {"prefix": value}
        else:
            match["path"] = {"regex": whole(value, way, ignore)}
    elif kind == "method":
        if way != "exact" or "method" in match:
            raise Unsupported("condition method")
        match["method"] = values
    elif kind == "src":
        if "source" in match:
            raise Unsupported("two conditions on one address")
        match["source"] = values
    elif kind == "header host" and way == "exact":
        if "host" in match:
            raise Unsupported("two conditions on one host")
        match["host"] = values
    else:
        where, name = kind.split(" ", 1)
        condition = {"name": name}
        if ignore:
            condition["regex"] = whole(values[0], way, True)
        elif way == "regex":
            condition["regex"] = whole(values[0], way, False)
        elif way != "found":
            condition[way] = values[0]
        match.setdefault("headers" if where == "header" else where, []).append(condition)


FETCHES = {"src": "%{client_ip}", "method": "%{method}", "path": "%{path}", "query": "%{query}", "ssl_fc_sni": "%{tls_server_name}",
           "ssl_fc_protocol": "%{tls_version}"}


def template(text):
    """A format of HAProxy's log as a text with variables."""
    made, at = "", 0
    for found in re.finditer(r"%(?:%|\[([^\]]*)\]|ci\b|(\{[^}]*\})?(\w+))", text):
        made += text[at:found.start()]
        at = found.end()
        if found[0] == "%%":
            made += "%%"
        elif found[0] == "%ci":
            made += "%{client_ip}"
        elif found[1] is not None:
            made += fetched(found[1].strip())
        else:
            made += f"{MARK}: format {found[3]}"
    return made + text[at:]


def with_variables(change, path):
    """A change whose text may have variables of rules."""
    values = dict(path.variables)
    if change.get("set") and not re.sub("\0([^\0]*)\0", lambda found: values.get(found[1], ""), change["set"]):
        return {"name": change["name"], "remove": True}
    return {key: re.sub("\0([^\0]*)\0", lambda found: values.get(found[1], ""), value) if isinstance(value, str) else value
            for key, value in change.items()}


def fetched(text):
    variable = re.fullmatch(r"var\(([\w.]+)\)", text)
    if variable:
        return f"\0{variable[1]}\0"
    if text in FETCHES:
        return FETCHES[text]
    header = re.fullmatch(r"(?:req\.f?hdr|hdr)\((?:\"|')?([\w-]+)(?:\"|')?\)", text)
    if header:
        return f"%{{header:{header[1].lower()}}}"
    literal = re.fullmatch(r"(?:str|int)\(([^()]*)\)", text)
    if literal:
        return literal[1].strip("\"'").replace("%", "%%")
    return f"{MARK}: format {re.split('[(,]', text)[0]}"  # Who looks at the field sees it.
