"""Translates nginx.conf into Sluice's configuration, as far as there are counterparts.

Anything else is a note, and the route that needs it becomes a 501. If nothing of the first server is left, or the file
as a whole needs something, NotTranslated is raised.
"""

import dataclasses
import os
import re
import urllib.parse


class NotTranslated(Exception):
    pass


# ---- The file

@dataclasses.dataclass
class Directive:
    name: str
    arguments: list
    block: list | None = None


_TOKEN = re.compile(r"""\s+|\#[^\n]*|(?P<quoted>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(?P<mark>[;{}])|(?P<word>(?:\$\{|\\.|[^\s;{}])+)""",
                    re.DOTALL | re.VERBOSE)


def _tokens(text):
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if not match:
            raise NotTranslated(f"a file that is none: {text[at:at + 40]!r}")
        # `${name}` ends with a character that is special elsewhere.
        word = match["word"]
        at = match.end()
        while word and word.count("${") > word.count("}") and text[at:at + 1] == "}":
            rest = re.compile(r"(?:\$\{|\\.|[^\s;{}])*").match(text, at + 1)
            word += "}" + rest[0]
            at = rest.end()
        if match["quoted"]:
            yield "word", re.sub(r"\\(.)", lambda found: {"n": "\n", "r": "\r", "t": "\t"}.get(
                found[1], found[1] if found[1] in "\"'\\" else found[0]), match["quoted"][1:-1], flags=re.DOTALL)
        elif match["mark"]:
            yield match["mark"], ""
        elif word:
            yield "word", word


def parse(text):
    """The directives of a file."""
    stack, words = [[]], []
    for kind, value in _tokens(text):
        if kind == "word":
            words.append(value)
        elif kind == "}":
            if len(stack) == 1:
                raise NotTranslated("a file that is none: a } too many")
            stack.pop()
        elif words or kind == "{":
            directive = Directive(words[0] if words else "", words[1:], [] if kind == "{" else None)
            stack[-1].append(directive)
            if kind == "{":
                stack.append(directive.block)
            words = []
    return stack[0]


def seconds(text):
    """A time of nginx in milliseconds."""
    parts = re.findall(r"(\d+)(ms|s|m|h|d|w|M|y)?", text)
    units = {"ms": 1, "": 1000, "s": 1000, "m": 60000, "h": 3600000, "d": 86400000, "w": 604800000, "M": 2592000000, "y": 31536000000}
    if "".join(number + unit for number, unit in parts) != text.replace(" ", ""):
        raise NotTranslated(f"the time {text}")
    return sum(int(number) * units[unit] for number, unit in parts)


def duration(text):
    value = seconds(text)
    return f"{value}ms" if value else "0"


def size(text):
    match = re.fullmatch(r"(\d+)([kKmMgG]?)", text)
    if not match:
        raise NotTranslated(f"the size {text}")
    return int(match[1]) << {"": 0, "k": 10, "m": 20, "g": 30}[match[2].lower()]


class Scope:
    """A block within the blocks around it."""

    def __init__(self, directives, parent=None, pattern=None):
        self.directives, self.parent, self.pattern = directives, parent, pattern

    def all(self, *names):
        """The arguments of each of these at the nearest level that has one."""
        scope = self
        while scope:
            found = [directive.arguments for directive in scope.directives if directive.name in names and directive.block is None]
            if found:
                return found
            scope = scope.parent
        return []

    def get(self, *names, default=None):
        found = self.all(*names)
        return found[-1][0] if found and found[-1] else default

    def own(self, name):
        return [directive for directive in self.directives if directive.name == name]

    def on(self, *names, default="off"):
        return self.get(*names, default=default) == "on"


# ---- Known directives

# Neither side of a connection sees a difference, or Sluice always does so, or only the speed is affected. Or it only
# names something, and its use is what counts.
SILENT = set("""
access_log error_log log_format log_not_found log_subrequest open_log_file_cache daemon events include_ worker_processes user pid
client_body_temp_path client_body_buffer_size client_body_in_single_buffer client_header_buffer_size client_body_in_file_only
connection_pool_size request_pool_size output_buffers postpone_output sendfile sendfile_max_chunk tcp_nodelay tcp_nopush aio directio
proxy_temp_path proxy_buffer_size proxy_buffers proxy_busy_buffers_size proxy_max_temp_file_size proxy_temp_file_write_size
proxy_headers_hash_max_size proxy_headers_hash_bucket_size proxy_socket_keepalive proxy_buffering proxy_http_version
proxy_pass_header proxy_send_timeout grpc_buffer_size grpc_socket_keepalive grpc_send_timeout fastcgi_temp_path uwsgi_temp_path
scgi_temp_path server_names_hash_bucket_size server_names_hash_max_size types_hash_max_size variables_hash_max_size
variables_hash_bucket_size map_hash_bucket_size map_hash_max_size map geo split_clients limit_req_zone limit_conn_zone zone
proxy_cache_path open_file_cache open_file_cache_valid open_file_cache_min_uses open_file_cache_errors resolver resolver_timeout
lingering_close lingering_time lingering_timeout keepalive_disable reset_timedout_connection http2 http2_chunk_size
http2_recv_buffer_size http2_body_preread_size http3 server_tokens server listen server_name upstream location types default_type root alias index
ssl_session_cache ssl_session_timeout ssl_prefer_server_ciphers ssl_ciphers ssl_ecdh_curve ssl_buffer_size ssl_dhparam
ssl_stapling_verify ssl_certificate_cache ssl_object_cache_inheritable proxy_ssl_session_reuse proxy_ssl_ciphers
proxy_ssl_certificate_cache grpc_ssl_ciphers grpc_ssl_session_reuse early_hints proxy_pass_trailers proxy_request_buffering
absolute_redirect port_in_redirect server_name_in_redirect chunked_transfer_encoding max_ranges etag if_modified_since expires_
recursive_error_pages msie_padding preread_buffer_size proxy_requests proxy_responses proxy_ignore_headers ignore_invalid_headers
proxy_upstream_zone gzip_buffers gzip_disable gzip_window gzip_hash postpone_gzipping gzip_no_buffer gzip_vary subrequest_output_buffer_size
resolver_ keepalive_min_timeout satisfy_ proxy_force_ranges auth_basic_user_file tcp_nodelay_ proxy_socket_rcvbuf lingering
env load_module gzip_proxied gzip_http_version proxy_next_upstream_timeout grpc_next_upstream_timeout ssl_session_tickets
multi_accept worker_connections worker_rlimit_nofile master_process thread_pool timer_resolution
""".split())

# Translated below, by name.
TRANSLATED = set("""
proxy_pass grpc_pass return add_header add_trailer proxy_set_header grpc_set_header proxy_hide_header grpc_hide_header
proxy_connect_timeout proxy_read_timeout grpc_connect_timeout grpc_read_timeout proxy_next_upstream proxy_next_upstream_tries
grpc_next_upstream grpc_next_upstream_tries proxy_ssl_certificate proxy_ssl_certificate_key proxy_ssl_verify
proxy_ssl_trusted_certificate proxy_ssl_name proxy_ssl_server_name proxy_ssl_protocols grpc_ssl_certificate grpc_ssl_certificate_key
grpc_ssl_verify grpc_ssl_trusted_certificate grpc_ssl_name grpc_ssl_server_name grpc_ssl_protocols proxy_ssl proxy_ssl_alpn
client_max_body_size client_header_timeout client_body_timeout send_timeout keepalive_timeout keepalive_requests keepalive_time
large_client_header_buffers max_headers underscores_in_headers merge_slashes http2_max_concurrent_streams allow deny auth_basic
gzip gzip_types gzip_min_length gzip_comp_level internal set_real_ip_from real_ip_header real_ip_recursive mirror
ssl_certificate ssl_certificate_key ssl_verify_client ssl_client_certificate ssl_trusted_certificate ssl_verify_depth
ssl_session_ticket_key ssl_protocols ssl_alpn ssl_stapling ssl_stapling_file proxy_protocol proxy_timeout proxy_bind_ ssl_preread
preread_timeout ssl_handshake_timeout worker_shutdown_timeout proxy_protocol_timeout proxy_protocol_version ssl_certificate_compression
proxy_redirect http stream
""".split())

# In addition to the route: without it, the response differs.
NOTED = set("error_page proxy_intercept_errors grpc_intercept_errors charset expires proxy_ssl_verify_depth".split())

UPSTREAM = set("server zone keepalive keepalive_requests keepalive_timeout keepalive_time least_conn ip_hash hash random sticky".split())

# Variables with a meaning here, where fields are written; the others of the first column only in the origin.
VARIABLES = {
    "host": "%{host}", "request_method": "%{method}", "scheme": "%{scheme}", "remote_addr": "%{client_ip}", "uri": "%{path}",
    "document_uri": "%{path}", "args": "%{query}", "query_string": "%{query}", "server_protocol": "%{protocol}",
    "ssl_protocol": "%{tls_version}", "ssl_server_name": "%{tls_server_name}", "proxy_protocol_addr": "%{client_ip}",
}
ORIGIN = set("""uri document_uri request_uri args query_string is_args request_method host remote_addr scheme https server_protocol
http2 server_port server_name ssl_protocol ssl_server_name proxy_protocol_addr request_body content_length content_type document_root
server_addr""".split())
VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")


def value(text):
    """A value with variables, in the format for fields."""
    def variable(match):
        name = (match[1] or match[2]).lower()
        if name in VARIABLES:
            return VARIABLES[name]
        if name.startswith("http_"):
            return "%{header:" + name[5:].replace("_", "-") + "}"
        raise NotTranslated(f"${name}")
    return VARIABLE.sub(variable, text.replace("%", "%%"))


def known(text):
    """Refuses variables that the origin does not know."""
    for first, second in VARIABLE.findall(text):
        name = (first or second).lower()
        if name not in ORIGIN and not name.startswith(("http_", "arg_", "cookie_")):
            raise NotTranslated(f"${name}")


def address(text):
    if text.startswith("unix:"):
        return text.rstrip(":")
    if re.fullmatch(r"\d+", text):
        return f"0.0.0.0:{text}"
    if text.startswith("*:"):
        return f"0.0.0.0:{text[2:]}"
    if not re.search(r":\d+$", text):
        text += ":80"
    return re.sub(r"^localhost:", "127.0.0.1:", text)


def quoted(path):
    """A path in the form in which it is compared: canonical."""
    return urllib.parse.quote(path, safe="/!$&'()*+,;=:@~")


def re2(text):
    return re.sub(r"([^\w/-])", r"\\\1", text, flags=re.ASCII)


# ---- The translation

class Translation:
    """`config` is Sluice's; `places` is what the origin (nginx_origin.py) does; `notes` lists what was left out."""

    def __init__(self, text, prefix):
        self.prefix = prefix
        self.notes = []
        self.places = []
        self.returns = []  # For stream: texts that connections get, each with its address.
        self._upstreams = {}
        self._named = {}
        self.listeners = []
        top = parse(text)
        top = self._included(top)
        main = Scope(top)
        self._check(main)
        shutdown = main.get("worker_shutdown_timeout")
        first = None
        for directive in top:
            if directive.name in ("http", "stream"):
                block = Scope(directive.block, main)
                self._named = {item.arguments[0]: item for item in block.own("upstream")}
                translated = (self._http if directive.name == "http" else self._stream)(block)
                first = translated if first is None else first
            elif directive.name == "mail":
                raise NotTranslated("mail")
        if not self.listeners:
            raise NotTranslated("a file without listeners")
        if first is False:
            raise NotTranslated("; ".join(dict.fromkeys(self.notes)))
        self.config = {
            "workers": 1, "shutdown_timeout": duration(shutdown) if shutdown else "2s",
            "body_file": {"directory": prefix}, "listeners": self.listeners, "upstreams": list(self._upstreams.values()),
        }

    def _included(self, directives):
        result = []
        for directive in directives:
            if directive.name == "include":
                path = os.path.join(self.prefix, directive.arguments[0])
                if "*" in path or not os.path.exists(path):
                    raise NotTranslated(f"include {directive.arguments[0]}")
                with open(path, encoding="utf-8") as file:
                    result += self._included(parse(file.read()))
                continue
            if directive.block is not None and directive.name in ("http", "stream", "server", "location", "upstream"):
                directive.block = self._included(directive.block)
            result.append(directive)
        return result

    def file(self, name):
        if name.startswith(("data:", "engine:", "store:")) or "$" in name:
            raise NotTranslated(f"the file {name}")
        return os.path.join(self.prefix, name)

    def note(self, text):
        self.notes.append(f"not translated: {text}")

    def _check(self, scope):
        for directive in scope.directives:
            if directive.name in SILENT or directive.name in TRANSLATED or directive.arguments in (["off"], ["0"]):
                continue
            if directive.name in ("if", "limit_except") and not directive.block:
                continue
            if directive.name not in NOTED:
                raise NotTranslated(directive.name)
            self.note(directive.name)

    # -- HTTP

    def _http(self, http):
        """Whether anything of the first server could be translated."""
        problem = self._problem(http)
        servers = []
        for directive in http.own("server"):
            server = Scope(directive.block, http)
            for listen in server.own("listen") or [Directive("listen", ["80"])]:
                servers.append((address(listen.arguments[0]), listen.arguments[1:], server))
        groups = {}
        for where, options, server in servers:
            if "quic" in options:
                self.note("listen ... quic")
                continue
            groups.setdefault(where, []).append((options, server))
        useful = {}
        for where, members in groups.items():
            members.sort(key=lambda member: not {"default_server", "default"} & set(member[0]))
            self._http_listener(where, members, problem, useful)
        return sum(useful.get(id(servers[0][2]), [True])) * 2 > len(useful.get(id(servers[0][2]), [True])) if servers else None

    def _problem(self, scope):
        try:
            self._check(scope)
        except NotTranslated as error:
            return str(error)
        return None

    def _http_listener(self, where, members, problem, useful):
        options = {option for given, _ in members for option in given}
        default = members[0][1]
        http = self._http_settings(default)
        listener = {"name": f"l{len(self.listeners)}", "address": where, "http": http}
        if "proxy_protocol" in options:
            listener["proxy_protocol"] = {"accept": "required"}
        if "ssl" in options:
            listener["tls"] = self._tls([server for _, server in members])
            if not default.on("http2") and "http2" not in options:
                listener["tls"]["alpn"] = ["http/1.1"]
        routes = []
        for number, (_, server) in enumerate(members[1:] + members[:1]):
            last = number == len(members) - 1
            hosts = None if last else self._hosts(server)
            if hosts == []:
                continue
            found = self._problem(server) or problem
            routes += self._server(server, hosts, found, useful, listener)
        http["routes"] = self._tidy(routes)
        if any(route.get("compression") for route in http["routes"]):
            gzip = default if default.on("gzip") else next(
                route["_scope"] for route in http["routes"] if route.get("compression"))
            http["compression"] = {
                "codings": ["gzip"], "min_size": size(gzip.get("gzip_min_length", default="20")),
                "types": sorted({"text/html"} | {kind for kinds in gzip.all("gzip_types") for kind in kinds if "*" not in kind}),
                "level": int(gzip.get("gzip_comp_level", default="1"))}
        for route in http["routes"]:
            route.pop("_scope", None)
            if "compression" not in http:
                route.pop("compression", None)
        self.listeners.append(listener)

    def _http_settings(self, server):
        http = {"via": "", "forwarded_for": "off"}
        for name, key in (("client_header_timeout", "header_timeout"), ("client_body_timeout", "body_timeout"),
                          ("send_timeout", "send_timeout"), ("keepalive_timeout", "idle_timeout"),
                          ("keepalive_time", "max_connection_age")):
            if server.get(name) and (seconds(server.get(name)) or key != "idle_timeout"):
                http[key] = duration(server.get(name))
        one = http["http1"] = {}
        two = http["http2"] = {}
        if server.get("keepalive_requests"):
            one["max_requests"] = two["max_requests"] = int(server.get("keepalive_requests"))
        if server.get("keepalive_timeout") and not seconds(server.get("keepalive_timeout")):
            one["max_requests"] = 1
        if server.on("underscores_in_headers"):
            one["allow_underscores"] = True
        if server.get("http2_max_concurrent_streams"):
            two["max_streams"] = int(server.get("http2_max_concurrent_streams"))
        buffers = server.all("large_client_header_buffers")
        if buffers:
            count, each = int(buffers[-1][0]), size(buffers[-1][1])
            http["max_start_line"] = min(max(each, 1024), 65536)
            http["max_head"] = min(max(count * each, 1024), 65536)
        if server.get("max_headers"):
            http["max_fields"] = int(server.get("max_headers"))
        if server.on("merge_slashes", default="on"):
            http["paths"] = {"merge_slashes": True}
        trusted = [arguments[0] for arguments in server.all("set_real_ip_from") if arguments[0] != "unix:"]
        if trusted and server.get("real_ip_header", default="X-Real-IP").lower() == "x-forwarded-for":
            http["trusted_proxies"] = trusted
            if not server.on("real_ip_recursive"):
                http["trusted_hops"] = 1
        elif trusted and server.get("real_ip_header", default="X-Real-IP") != "proxy_protocol":
            self.note("real_ip_header other than X-Forwarded-For")
        return http

    def _hosts(self, server):
        hosts = []
        for name in [name for names in server.all("server_name") for name in names]:
            if name.startswith(".") and len(name) > 1:
                hosts += [name[1:], "*" + name]
            elif re.fullmatch(r"(\*\.)?[\w-]+(\.[\w-]+)*", name):
                hosts.append(name)
            elif name:
                self.note(f"server_name {name}")
        return hosts

    def _server(self, server, hosts, problem, useful, listener):
        """Its routes, in the order in which they have to be tried."""
        found = []

        def collect(scope):
            for directive in scope.directives:
                if directive.name == "location":
                    inner = Scope(directive.block, scope, directive.arguments)
                    found.append(inner)
                    collect(inner)
        collect(server)

        def order(location):
            mark, text = location.pattern[0], location.pattern[-1]
            kind = {"=": 0, "^~": 1, "~": 2, "~*": 2}.get(mark, 3)
            return kind, 0 if kind == 2 else -len(text)
        rewrites = any(directive.name == "return" for directive in server.directives)
        locations = [] if rewrites else sorted((at for at in found if not at.pattern[-1].startswith("@")), key=order)
        if not any(location.pattern == ["/"] for location in locations):
            locations.append(Scope([], server, ["/"]))
        routes = []
        for location in locations:
            match = {"host": hosts} if hosts else {}
            path = self._path(location.pattern)
            if path:
                match["path"] = path
            try:
                if problem:
                    raise NotTranslated(problem)
                self._check(location)
                route = self._location(location, path, listener)
                done = True
            except NotTranslated as error:
                self.note(f"location {' '.join(location.pattern)}: {error}")
                route = {"respond": {"status": 501, "body": f"not translated: {error}"}}
                done = False
            useful.setdefault(id(server), []).append(done)
            routes.append({"match": match, **route})
        return routes

    @staticmethod
    def _path(pattern):
        mark, text = (pattern[0], pattern[-1]) if len(pattern) > 1 else ("", pattern[0])
        if not mark and re.match(r"^(=|\^~|~\*?)(?=.)", text):
            mark = re.match(r"^(=|\^~|~\*?)", text)[1]
            text = text[len(mark):]
        if mark == "=":
            return {"exact": quoted(text)}
        if mark.startswith("~"):
            text = ("" if text.startswith("^") else ".*") + text.removeprefix("^")
            text = text.removesuffix("$") + ("" if text.endswith("$") else ".*")
            return {"regex": ("(?i)" if mark == "~*" else "") + text}
        if text == "/":
            return None
        return {"prefix": quoted(text)} if text.endswith("/") else {"regex": re2(quoted(text)) + ".*"}

    @staticmethod
    def _tidy(routes):
        """Without routes that can never be taken, and without empty `match`es."""
        kept, seen = [], []
        for route in routes:
            key = {name: route["match"][name] for name in ("host", "path") if name in route["match"]}
            if key in seen or {} in seen or ({"host": key["host"]} in seen if "host" in key else False):
                continue
            seen.append(key)
            if not route["match"]:
                del route["match"]
            kept.append(route)
        return kept

    def _location(self, location, path, listener):
        if location.own("internal"):
            return {"respond": {"status": 404, "body": "not found"}}
        route = {"_scope": location, "compression": location.on("gzip")}
        limit = location.get("client_max_body_size", default="1m")
        if size(limit):
            route["max_body"] = size(limit)
        self._access(location, route)
        fields = self._response_fields(location)
        passing = [(name, location.own(name)[-1].arguments[0]) for name in ("proxy_pass", "grpc_pass") if location.own(name)]
        returns = location.own("return") or (location.parent.own("return") if location.parent else [])
        scope = location.parent
        while scope and not returns and not passing:  # Directives of the server come first.
            returns = scope.own("return")
            scope = scope.parent
        if returns:
            answer = self._return(location, returns[0].arguments, listener)
            if answer and not location.all("add_trailer"):
                route.update(answer)
                if fields:
                    route["response_headers"] = fields
                route.pop("max_body", None)
                return route
            passing = []
        elif passing:
            self._forward(location, route, path, *passing[0])
            hidden = [{"name": arguments[0], "remove": True} for arguments in location.all("proxy_hide_header", "grpc_hide_header")]
            if hidden or fields:
                route["response_headers"] = hidden + fields
            return route
        route["forward"] = self._origin()
        route["request_headers"] = [
            {"name": "x-origin-place", "set": str(len(self.places))},
            *({"name": f"x-origin-{name}", "set": text} for name, text in (
                ("remote", "%{client_ip}"), ("protocol", "%{protocol}"), ("scheme", "%{scheme}"), ("tls", "%{tls_version}"),
                ("name", "%{tls_server_name}")))]
        if listener["address"].startswith("unix:"):
            port = ""
        else:
            port = listener["address"].rsplit(":", 1)[1]
        for text in returns[0].arguments[1:] if returns else []:
            known(text)
        headers = []
        for arguments in location.all("add_header"):
            try:
                known(arguments[1])
                headers.append(arguments)
            except NotTranslated as error:
                self.note(f"add_header {arguments[0]}: {error}")
        names = location.all("server_name")
        self.places.append({
            "return": returns[0].arguments if returns else None, "headers": headers,
            "trailers": location.all("add_trailer"), "root": self.file(location.get("root", default="html")),
            "alias": self.file(location.get("alias")) if location.own("alias") else None,
            "location": location.pattern[-1], "index": [name for names in location.all("index") for name in names] or ["index.html"],
            "type": location.get("default_type", default="text/plain"), "port": port,
            "server": names[-1][0] if names else "", "absolute": location.on("absolute_redirect", default="on"),
            "port_in_redirect": location.on("port_in_redirect", default="on"),
            "server_name_in_redirect": location.on("server_name_in_redirect")})
        return route

    def _access(self, location, route):
        rules = [(directive.name, directive.arguments[0]) for directive in location.directives if directive.name in ("allow", "deny")]
        scope = location.parent
        while not rules and scope:
            rules = [(item.name, item.arguments[0]) for item in scope.directives if item.name in ("allow", "deny")]
            scope = scope.parent
        if any(where == "unix:" for _, where in rules):
            raise NotTranslated("allow unix:")
        if rules and rules[-1] == ("deny", "all") and all(name == "allow" for name, _ in rules[:-1]) and len(rules) > 1:
            route["allow"] = [where for _, where in rules[:-1]]
        elif rules and all(name == "deny" for name, _ in (rules[:-1] if rules[-1] == ("allow", "all") else rules)):
            route["deny"] = [part for name, where in rules if name == "deny"
                             for part in (["0.0.0.0/0", "::/0"] if where == "all" else [where])]
        elif rules and rules != [("allow", "all")]:
            raise NotTranslated("allow and deny in this order")
        realm = location.get("auth_basic", default="off")
        if realm != "off":
            if "$" in realm:
                raise NotTranslated("auth_basic with variables")
            route["auth"] = {"basic": {"realm": realm, "users_file": self.file(location.get("auth_basic_user_file"))}, "forward": True}

    def _response_fields(self, location):
        fields = []
        for arguments in location.all("add_header"):
            try:
                if arguments[0].lower() in ("connection", "content-length", "transfer-encoding", "date_"):
                    raise NotTranslated("of this name")
                fields.append({"name": arguments[0], "add": value(arguments[1])})
            except NotTranslated as error:
                self.note(f"add_header {arguments[0]}: {error}")
        return [field for field in fields if field["add"]]

    def _return(self, location, arguments, listener):
        """A route of Sluice's own, or None: the origin does it."""
        if not re.fullmatch(r"\d+", arguments[0]):
            arguments = ["302", *arguments]
        status, text = int(arguments[0]), arguments[1] if len(arguments) > 1 else ""
        if status == 444:
            return None
        if not 200 <= status <= 599:
            raise NotTranslated(f"return {status}")
        bad = False
        for field in location.all("add_header"):
            try:
                value(field[1])
            except NotTranslated:
                bad = True
        always = all("always" in field[2:] for field in location.all("add_header"))
        plain = status in (200, 201, 204, 206, 301, 302, 303, 304, 307, 308) or always
        if "$" in text or bad or not plain:
            return None
        if status in (301, 302, 303, 307, 308):
            secure = "tls" in listener
            absolute = re.fullmatch(r"(https?)://([^/:]+)(?::(\d+))?(/[^?#]*)?", text)
            if absolute:
                return {"redirect": {"status": status, "scheme": absolute[1], "host": absolute[2], "path": absolute[4] or "/",
                                     **({"port": int(absolute[3])} if absolute[3] else {}), "drop_query": True}}
            if not re.fullmatch(r"/[^?#]*", text) or quoted(text) != text or location.on("server_name_in_redirect"):
                return None
            redirect = {"status": status, "path": text, "drop_query": True}
            if location.on("absolute_redirect", default="on"):
                redirect["scheme"] = "https" if secure else "http"
                if location.on("port_in_redirect", default="on") and not listener["address"].startswith("unix:"):
                    redirect["port"] = int(listener["address"].rsplit(":", 1)[1])
            return {"redirect": redirect}
        if not text and status >= 300:
            return None  # A page of nginx.
        return {"respond": {"status": status, "body": text, "content_type": location.get("default_type", default="text/plain")}}

    def _forward(self, location, route, path, directive, target):
        kind = directive.removesuffix("_pass")
        target = target.removesuffix("$request_uri")
        if "$" in target:
            raise NotTranslated(f"{directive} with variables")
        scheme, marked, rest = target.partition("://")
        if not marked:
            scheme, rest = "grpc", target
        if scheme not in ("http", "https", "grpc", "grpcs"):
            raise NotTranslated(f"{directive} {scheme}")
        if rest.startswith("unix:"):
            host, _, to = rest[5:].partition(":")
            host, shown = "unix:" + host, "localhost"
        else:
            host, slash, to = rest.partition("/")
            to = slash + to
            shown = host
        if location.own("rewrite"):
            raise NotTranslated("rewrite")
        settings = {}
        connect, read = location.get(f"{kind}_connect_timeout"), location.get(f"{kind}_read_timeout")
        if connect:
            settings["connect_timeout"] = duration(connect)
        if read:
            settings["response_timeout"] = duration(read)
            route["stream_idle_timeout"] = duration(read)
        protocol = "http2" if kind == "grpc" or location.get("proxy_http_version") in ("2", "2.0") else "http1"
        settings["protocol"] = protocol
        if scheme in ("https", "grpcs"):
            settings["tls"] = self._upstream_tls(location, kind, host, protocol)
        self._retry(location, kind, host, route, settings, read)
        route["forward"] = self._upstream(host, settings, location)
        if to:
            if "?" in to:
                raise NotTranslated(f"{directive} with a query")
            if path is None:
                route["rewrite"] = {"regex": "/(.*)", "substitution": quoted(to).replace("\\", "\\\\") + r"\1"}
            elif "exact" in path:
                route["rewrite"] = {"path": quoted(to)}
            elif "prefix" in path and to.endswith("/"):
                route["rewrite"] = {"prefix": quoted(to)}
            else:
                text = location.pattern[-1]
                route["rewrite"] = {"regex": re2(quoted(text)) + "(.*)", "substitution": quoted(to).replace("\\", "\\\\") + r"\1"}
        rule = {"name": shown, "given": False}
        changes = []
        for arguments in location.all(f"{kind}_set_header"):
            name, text = arguments[0], arguments[1]
            if name.lower() == "host":
                rule["given"] = True
                if text in ("$host", "$http_host"):
                    rule["name"] = None
                elif "$" in text or not text:
                    raise NotTranslated(f"{kind}_set_header Host {text}")
                else:
                    rule["name"] = text
            elif name.lower() in ("connection", "upgrade", "te"):
                continue  # This is always so.
            elif name.lower() in ("content-length", "transfer-encoding", "keep-alive"):
                raise NotTranslated(f"{kind}_set_header {name}")
            else:
                try:
                    changes.append({"name": name, "set": value(text)} if text else {"name": name, "remove": True})
                except NotTranslated as error:
                    self.note(f"{kind}_set_header {name}: {error}")
        if rule["name"]:
            route.setdefault("rewrite", {})["host"] = rule["name"]
        if changes:
            route["request_headers"] = changes
        if kind == "proxy" and location.on("proxy_request_buffering", default="on"):
            route["buffer"] = {"requests": "64MiB"}
        if location.all("mirror") and location.get("mirror") != "off":
            self._mirror(location, route)
        if location.all("proxy_redirect") and location.get("proxy_redirect") not in ("off", "default"):
            self.note("proxy_redirect")

    def _mirror(self, location, route):
        scope = location
        while scope.parent and not any(item.name == "listen" for item in scope.directives):
            scope = scope.parent
        wanted = location.get("mirror")
        for item in scope.own("location"):
            if item.arguments[-1] == wanted and any(inner.name == "proxy_pass" for inner in item.block):
                inner = Scope(item.block, scope, item.arguments)
                target = inner.get("proxy_pass")
                if target.startswith("http://") and target.endswith("$request_uri"):
                    route["mirror"] = {"to": self._upstream(target[7:].removesuffix("$request_uri"), {"protocol": "http1"}, inner)}
                    return
        raise NotTranslated("mirror to another path")

    def _retry(self, location, kind, host, route, settings, read):
        words = [word for words in location.all(f"{kind}_next_upstream") for word in words] or ["error", "timeout"]
        if "off" in words:
            route["retry"] = {"on": ["connect_failure"], "attempts": 1}
            settings["connect_attempts"] = 1
            return
        conditions = ["connect_failure", "refused"]
        if "error" in words:
            conditions.append("reset")
        if "timeout" in words:
            conditions.append("timeout")
        if "http_500" in words:
            conditions.append("5xx")
        elif {"http_502", "http_503", "http_504"} & set(words):
            conditions.append("gateway_error")
        servers = [item for item in self._named[host].block if item.name == "server"] if host in self._named else [None]
        tries = int(location.get(f"{kind}_next_upstream_tries", default="0")) or len(servers)
        if tries > 1 and len(servers) > 1:
            route["retry"] = {"on": conditions, "attempts": min(tries, 10), "backoff": "1ms", "max_backoff": "1ms"}
            if "timeout" in words:
                route["retry"]["try_timeout"] = duration(read or "60s")
            settings["connect_attempts"] = min(tries, 100)
        else:
            route["retry"] = {"on": ["connect_failure"], "attempts": 1}
            if len(servers) > 1:
                settings["connect_attempts"] = 1
        if {"5xx", "gateway_error"} & set(conditions):
            settings["ejection"] = {"gateway_errors" if "5xx" not in conditions else "consecutive_errors": 1, "time": "10s", "max_share": 100}

    # -- Upstreams

    def _origin(self):
        self._upstreams.setdefault("origin", {"name": "origin", "endpoints": [f"unix:{self.prefix}/origin.sock"],
                                              "response_timeout": "30s"})
        return "origin"

    def _upstream(self, host, settings, scope):
        found = dict(settings)
        if host in self._named:
            self._group(self._named[host], found, scope)
        else:
            if settings["protocol"] != "tcp":
                found["pool"] = {"max_requests": 1}  # Only an upstream keeps connections.
            found["endpoints"] = [address(host if host.startswith("unix:") or re.search(r":\d+$", host)
                                          else host + (":443" if "tls" in found else ":80"))]
        servers = scope.all("resolver")
        if servers:
            found["resolve"] = {"servers": [address(text) for text in servers[-1] if "=" not in text]}
        name = re.sub(r"[^\w.-]", "_", host)[-40:]
        for number in range(100):
            key = f"{name}-{number}" if number else name
            if key not in self._upstreams or self._upstreams[key] == {"name": key, **found}:
                self._upstreams[key] = {"name": key, **found}
                return key
        raise NotTranslated("more than a hundred upstreams")

    def _group(self, directive, found, scope):
        for item in directive.block:
            if item.name not in UPSTREAM:
                raise NotTranslated(f"upstream: {item.name}")
        endpoints, limits, fails, times = [], set(), set(), set()
        for server in (item for item in directive.block if item.name == "server"):
            options = dict(option.partition("=")[::2] for option in server.arguments[1:])
            unknown = set(options) - {"weight", "max_fails", "fail_timeout", "backup", "down", "max_conns", "resolve", "route"}
            if unknown:
                raise NotTranslated(f"upstream: server {' '.join(unknown)}")
            limits.add(int(options.get("max_conns", 0)))
            fails.add(int(options.get("max_fails", 1)))
            times.add(seconds(options.get("fail_timeout", "10s")))
            same = next((item for item in endpoints if item["address"] == address(server.arguments[0])), None)
            if same and "down" not in options:
                same["weight"] += int(options.get("weight", 1))
            elif "down" not in options:
                endpoints.append({"address": address(server.arguments[0]), "weight": int(options.get("weight", 1)),
                                  "priority": 1 if "backup" in options else 0})
        if not endpoints:
            raise NotTranslated("upstream: no server that is up")
        if len(limits) > 1:
            raise NotTranslated("upstream: max_conns of one server")
        if len(fails) > 1 or len(times) > 1:
            self.note("max_fails and fail_timeout of one server")
        found["endpoints"] = endpoints
        if any(endpoint["priority"] for endpoint in endpoints):
            found["failover_below"] = 1
        if limits != {0}:
            found["max_connections_per_endpoint"] = limits.pop()
        found["max_fails"], fail_time = min(fails), min(times)
        found["fail_timeout"] = f"{fail_time}ms"
        if "ejection" in found:
            found["ejection"] = {**found["ejection"], "time": f"{fail_time}ms"}
        inner = Scope(directive.block)
        if inner.all("keepalive"):
            pool = found.setdefault("pool", {})
            pool["max_idle"] = int(inner.get("keepalive"))
            if not pool["max_idle"]:
                pool["max_requests"] = 1
            if inner.get("keepalive_requests"):
                pool["max_requests"] = int(inner.get("keepalive_requests"))
            if inner.get("keepalive_timeout"):
                pool["idle_timeout"] = duration(inner.get("keepalive_timeout"))
        if inner.own("least_conn"):
            found["balance"] = "least_connections"
        if inner.own("random"):
            choice = inner.own("random")[0].arguments
            if "least_time" in " ".join(choice):
                raise NotTranslated("upstream: random ... least_time")
            found["balance"] = "least_request" if choice[:1] == ["two"] else "random"
        if inner.own("ip_hash"):
            found["balance"], found["hash"] = "ring_hash", {"source": True}
        if inner.own("hash"):
            key = inner.own("hash")[0].arguments[0]
            match = re.fullmatch(r"\$(arg|http|cookie)_(\w+)", key)
            if match:
                kind = {"arg": "query", "http": "header", "cookie": "cookie"}[match[1]]
                found["hash"] = {kind: match[2].replace("_", "-") if kind == "header" else match[2]}
            elif key in ("$remote_addr", "$binary_remote_addr"):
                found["hash"] = {"source": True}
            elif key == "$uri":
                found["hash"] = {"path": True}
            else:
                raise NotTranslated(f"upstream: hash {key}")
            found["balance"] = "ring_hash"
        if inner.own("sticky"):
            arguments = inner.own("sticky")[0].arguments
            if arguments[0] != "cookie":
                raise NotTranslated(f"upstream: sticky {arguments[0]}")
            options = dict(option.partition("=")[::2] for option in arguments[2:])
            if set(options) - {"expires", "path"} or "$" in options.get("path", ""):
                raise NotTranslated(f"upstream: sticky {' '.join(arguments[2:])}")
            found["sticky"] = {"cookie": arguments[1], **({"path": options["path"]} if "path" in options else {}),
                               **({"ttl": duration(options["expires"])} if options.get("expires", "max") != "max" else {})}

    def _upstream_tls(self, scope, kind, host, protocol=None):
        tls = {"verify": scope.on(f"{kind}_ssl_verify")}
        if scope.get(f"{kind}_ssl_trusted_certificate"):
            tls["ca"] = self.file(scope.get(f"{kind}_ssl_trusted_certificate"))
        name = scope.get(f"{kind}_ssl_name", default=host)
        if "$" in name:
            raise NotTranslated(f"{kind}_ssl_name with variables")
        name = name.rsplit(":", 1)[0]
        if (scope.on(f"{kind}_ssl_server_name") or tls["verify"]) and not name.startswith("unix:") and re.search("[a-zA-Z]", name):
            tls["server_name"] = name
        elif scope.on(f"{kind}_ssl_verify"):
            raise NotTranslated(f"{kind}_ssl_verify without a name")
        if scope.get(f"{kind}_ssl_certificate"):
            tls["certificate"] = {"chain": self.file(scope.get(f"{kind}_ssl_certificate")),
                                  "key": self.file(scope.get(f"{kind}_ssl_certificate_key"))}
        if scope.all(f"{kind}_ssl_alpn"):
            tls["alpn"] = scope.all(f"{kind}_ssl_alpn")[-1]
        elif protocol == "http1":
            tls["alpn"] = ["http/1.1"]
        if set(scope.all(f"{kind}_ssl_protocols")[-1] if scope.all(f"{kind}_ssl_protocols") else ["TLSv1.2"]) == {"TLSv1.3"}:
            tls["min_version"] = "1.3"
        return tls

    def _tls(self, servers):
        tls, certificates = {}, []
        default = servers[0]
        for server in servers:
            for number, arguments in enumerate(server.all("ssl_certificate")):
                keys = server.all("ssl_certificate_key")
                pair = {"chain": self.file(arguments[0]), "key": self.file(keys[min(number, len(keys) - 1)][0])}
                if server.on("ssl_stapling") and server.get("ssl_stapling_file"):
                    pair["ocsp"] = self.file(server.get("ssl_stapling_file"))
                elif server.on("ssl_stapling"):
                    self.note("ssl_stapling without ssl_stapling_file")
                if pair not in certificates:
                    certificates.append(pair)
        if not certificates:
            raise NotTranslated("ssl without a certificate")
        tls["certificates"] = certificates
        verify = {server.get("ssl_verify_client", default="off") for server in servers}
        if len(verify) > 1:
            self.note("ssl_verify_client that differs between server names")
        verify = default.get("ssl_verify_client", default="off")
        if verify == "optional_no_ca":
            raise NotTranslated("ssl_verify_client optional_no_ca")
        if verify != "off":
            authority = default.get("ssl_client_certificate") or default.get("ssl_trusted_certificate")
            tls["client_certificate"] = "require" if verify == "on" else "request"
            tls["client_ca"] = self.file(authority)
            if default.get("ssl_verify_depth"):
                tls["client_depth"] = int(default.get("ssl_verify_depth"))
        if default.get("ssl_session_tickets", default="on") == "off":
            tls["tickets"] = False
        if default.all("ssl_session_ticket_key"):
            tls["ticket_keys"] = [self.file(arguments[0]) for arguments in default.all("ssl_session_ticket_key")]
        protocols = default.all("ssl_protocols")
        if protocols and "TLSv1.2" not in protocols[-1]:
            if "TLSv1.3" not in protocols[-1]:
                raise NotTranslated(f"ssl_protocols {' '.join(protocols[-1])}")
            tls["min_version"] = "1.3"
        elif protocols and "TLSv1.3" not in protocols[-1]:
            self.note("ssl_protocols without TLSv1.3")
        if default.all("ssl_alpn"):
            tls["alpn"] = default.all("ssl_alpn")[-1]
        return tls

    # -- TCP

    def _stream(self, stream):
        problem = self._problem(stream)
        maps = {item.arguments[1]: item for item in stream.own("map")}
        groups, first = {}, None
        for directive in stream.own("server"):
            server = Scope(directive.block, stream)
            for listen in server.own("listen"):
                if "udp" in listen.arguments:
                    self.note("listen ... udp")
                    first = False if first is None else first
                    continue
                groups.setdefault(address(listen.arguments[0]), []).append((listen.arguments[1:], server))
        for where, members in groups.items():
            options, server = members[0]
            try:
                if len(members) > 1:
                    raise NotTranslated("stream: servers by name")
                found = problem or self._problem(server)
                if found:
                    raise NotTranslated(found)
                self.listeners.append(self._stream_listener(where, options, server, maps))
                first = True if first is None else first
            except NotTranslated as error:
                self.note(f"stream: listen {where}: {error}")
                first = False if first is None else first
        return first

    def _stream_listener(self, where, options, server, maps):
        listener = {"name": f"l{len(self.listeners)}", "address": where}
        tcp = {}
        if "proxy_protocol" in options:
            listener["proxy_protocol"] = {"accept": "required"}
            if server.get("proxy_protocol_timeout"):
                listener["proxy_protocol"]["timeout"] = duration(server.get("proxy_protocol_timeout"))
        if "ssl" in options:
            listener["tls"] = self._tls([server])
            if server.get("ssl_handshake_timeout"):
                listener["tls"]["handshake_timeout"] = duration(server.get("ssl_handshake_timeout"))
        if server.get("proxy_timeout"):
            tcp["idle_timeout"] = duration(server.get("proxy_timeout"))
        if server.get("preread_timeout"):
            tcp["inspect_timeout"] = duration(server.get("preread_timeout"))
        if any(item.name in ("allow", "deny") for scope in (server, server.parent) for item in scope.directives):
            raise NotTranslated("stream: allow and deny")
        settings = {"protocol": "tcp"}
        if server.get("proxy_connect_timeout"):
            settings["connect_timeout"] = duration(server.get("proxy_connect_timeout"))
        if server.on("proxy_protocol"):
            settings["send_proxy_protocol"] = "v" + server.get("proxy_protocol_version", default="1")
        if server.get("proxy_next_upstream") == "off":
            settings["connect_attempts"] = 1
        elif server.get("proxy_next_upstream_tries"):
            settings["connect_attempts"] = int(server.get("proxy_next_upstream_tries")) or 100
        if server.own("proxy_pass"):
            target = server.get("proxy_pass")
            if server.on("proxy_ssl"):
                settings["tls"] = self._upstream_tls(server, "proxy", target)
            if target in maps and server.on("ssl_preread"):
                tcp["routes"] = self._preread(maps[target], settings, server)
            elif "$" in target:
                raise NotTranslated("proxy_pass with variables")
            else:
                tcp["forward"] = self._upstream(target, settings, server)
        elif server.own("return"):
            text = self._stream_text(server.get("return"), where)
            path = f"{self.prefix}/return{len(self.returns)}.sock"
            self.returns.append((path, text))
            tcp["forward"] = self._upstream("unix:" + path, {"protocol": "tcp", "send_proxy_protocol": "v1"}, server)
        else:
            raise NotTranslated("stream: a server without proxy_pass")
        return {**listener, "tcp": tcp}

    @staticmethod
    def _stream_text(text, where):
        host, _, port = where.rpartition(":")
        known = {"server_port": port, "server_addr": host, "protocol": "TCP"}
        for name in [first or second for first, second in VARIABLE.findall(text)]:
            if name not in known and name not in ("remote_addr", "remote_port", "proxy_protocol_addr", "proxy_protocol_port"):
                raise NotTranslated(f"stream: ${name}")
        return VARIABLE.sub(lambda match: known.get(match[1] or match[2], match[0]), text)

    def _preread(self, directive, settings, server):
        """Routes by what `map` makes of the server name or the protocols of ALPN."""
        key = {"$ssl_preread_server_name": "sni"}.get(directive.arguments[0])
        if not key:
            raise NotTranslated(f"stream: map {directive.arguments[0]}")
        routes, default = [], None
        for item in directive.block:
            if item.name == "default":
                default = item.arguments[0]
            elif item.name == "":
                raise NotTranslated("stream: map of no name")
            elif re.fullmatch(r"(\*\.)?[\w.-]+", item.name):
                routes.append({"match": {key: [item.name]}, "forward": self._upstream(item.arguments[0], settings, server)})
            else:
                raise NotTranslated(f"stream: map of {item.name}")
        if default:
            routes.append({"forward": self._upstream(default, settings, server)})
        return routes
