// Every key of the configuration: its name, its field, its bounds, and a line of help.
//
// describe(visitor, value) passes each field of `value` to the visitor. The loader, the printer, the JSON schema and
// the key reference are visitors, so they cannot disagree: a key added here is read, printed and documented. A visitor
// has
//
//   template <class T> void field(std::string_view key, T& value, std::string_view help, const Rules& rules = {});
//   void directive(std::string_view key, std::string_view help);
//
// T is a Scalar, a struct with describe(), a std::optional of such a struct, or a std::vector of either. directive()
// is for a key that names files, which are read before the values are (include.h). Rules that involve several keys (a
// name that must exist, a mark below another) are in validate.cc.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "proxy/config/load/scalar.h"
#include "proxy/config/load/schema_http.h"
#include "proxy/config/load/schema_rules.h"
#include "proxy/config/load/schema_upstream.h"
#include "proxy/config/model/config.h"

namespace sluice::config {

template <class V>
void describe(V& v, Keepalive& k) {
  constexpr uint64_t kSecondMs = 1000;
  constexpr uint64_t kMaxMs = 32767 * kSecondMs;  // the kernel's MAX_TCP_KEEPIDLE and MAX_TCP_KEEPINTVL
  v.field("idle", k.idle, "Silence before the first TCP keep-alive probe, in whole seconds; 0 turns probes off.",
          {.max = kMaxMs, .step = kSecondMs});
  v.field("interval", k.interval, "Time between unanswered probes, in whole seconds.",
          {.min = kSecondMs, .max = kMaxMs, .step = kSecondMs});
  v.field("probes", k.probes, "Unanswered probes after which the connection counts as dead.", {.min = 1, .max = 127});
}

template <class V>
void describe(V& v, ProxyProtocol& p) {
  v.field("accept", p.accept,
          "Whether a connection starts with a PROXY protocol header (v1 or v2). `optional` needs `trusted`.");
  v.field("timeout", p.timeout, "How long that header may take to arrive.", {.min = 1});
  v.field("trusted", p.trusted,
          "Sources whose header is trusted; empty means all. From others, `optional` treats the header as payload and "
          "`required` closes the connection.");
}

template <class V>
void describe(V& v, TcpMatch& m) {
  v.field("sni", m.sni,
          "TLS server names; one must match. `*.example.com`: any one label, `**.example.com`: one or more.",
          {.omit_empty = true, .one_word = true, .min = 1});
  v.field("alpn", m.alpn, "Application protocols, one of which the client must offer.",
          {.omit_empty = true, .one_word = true, .min = 1});
  v.field("peer", m.peer,
          "Identities, one of which the client must have authenticated as, with a certificate or by ALTS: see "
          "`target_identities`. With a handshaker service, a peer without a service account is identified by its host "
          "name.",
          {.omit_empty = true, .one_word = true, .min = 1});
}

template <class V>
void describe(V& v, TcpRoute& r) {
  v.field("match", r.match, "Conditions. Without it the route matches every remaining connection.",
          {.omit_empty = true});
  v.field("forward", r.forward, "Name of the upstream.", {.required = true});
}

template <class V>
void describe(V& v, Tcp& t) {
  v.field("forward", t.forward, "Name of the upstream of every connection. Give either this or `routes`.",
          {.omit_empty = true});
  v.field("routes", t.routes, "Tried in order; the first match is taken. A connection without a match is closed.",
          {.omit_empty = true, .min = 1});
  v.field("idle_timeout", t.idle_timeout, "Closes a connection that moved no bytes for this time; 0 = never.");
  v.field("max_duration", t.max_duration, "Closes a connection at this age, however busy; 0 = never.");
  v.field("stuck_timeout", t.stuck_timeout,
          "Resets a connection whose reader took nothing for this time, but only while `memory.worker_budget` is used "
          "up and other connections wait for memory; 0 = never.");
  v.field("inspect_timeout", t.inspect_timeout, "How long the ClientHello may take, where routes look at it.",
          {.min = 1});
  v.field("buffer_high", t.buffer_high, "Bytes queued toward one side at which reading from the other pauses.",
          {.min = 4 * kKiB, .max = kGiB});
  v.field("buffer_low", t.buffer_low, "Bytes queued at which reading resumes; below `buffer_high`.",
          {.default_text = "half of `buffer_high`"});
  v.field("upload_bandwidth", t.upload_bandwidth,
          "Names of `rate_limits` in bytes, to which the bytes from clients are paced.",
          {.omit_empty = true, .one_word = true, .min = 1});
  v.field("download_bandwidth", t.download_bandwidth, "The same for the bytes to clients.",
          {.omit_empty = true, .one_word = true, .min = 1});
  v.field(
      "access_log", t.access_log,
      "File, `stdout`, `stderr`, a syslog daemon or `otlp:UPSTREAM`, which gets a line for each connection; or a map.",
      {.omit_empty = true});
}

template <class V>
void describe(V& v, TlsCertificate& c) {
  v.field("chain", c.chain, "PEM file: the certificate, followed by the intermediates that lead to its root.",
          {.required = true});
  v.field("key", c.key, "PEM file of its private key.", {.required = true});
  v.field("ocsp", c.ocsp, "DER file of an OCSP response to staple.", {.omit_empty = true});
}

template <class V>
void describe(V& v, ListenerTls& t) {
  v.field("certificates", t.certificates,
          "Chosen by matching the client's server name against the names in them; of several for one name (ECDSA, "
          "RSA), by what the client supports. The first is the default.",
          {.required = true, .min = 1});
  v.field(
      "alpn", t.alpn, "Application protocols, in the order of preference; a client that offers only others is refused.",
      {.omit_empty = true, .min = 1, .default_text = "with `http`: `[ h2, http/1.1 ]`; of `admin`: `[ http/1.1 ]`"});
  v.field("client_ca", t.client_ca, "PEM file of the authorities that client certificates must come from.",
          {.omit_empty = true});
  v.field("client_certificate", t.client_certificate,
          "Whether a client certificate is requested or required; needs `client_ca`.");
  v.field("client_depth", t.client_depth, "Authorities allowed between a client certificate and one of `client_ca`.",
          {.max = 100});
  v.field("min_version", t.min_version, "Minimum version of TLS.");
  v.field("handshake_timeout", t.handshake_timeout, "How long the handshake may take.", {.min = 1});
  v.field("max_handshakes", t.max_handshakes,
          "Concurrent handshakes; beyond it connections are refused, and above half of it a handshake may take only "
          "one second; 0 = unlimited. Not for `admin`.");
  v.field("tickets", t.tickets, "Whether clients get session tickets for resumption.");
  v.field(
      "ticket_keys", t.ticket_keys,
      "Files of 80 random bytes (`openssl rand 80`) with the keys of session tickets, for processes that share them: "
      "the first seals, all open. Without them keys are made here, and renewed every day.",
      {.omit_empty = true, .min = 1});
}

template <class V>
void describe(V& v, UpstreamTls& t) {
  v.field("verify", t.verify, "Whether an endpoint's certificate must be valid and match `server_name`.");
  v.field("ca", t.ca, "PEM file of the trusted authorities; without it the system's.", {.omit_empty = true});
  v.field("server_name", t.server_name, "Name sent to the endpoint and expected in its certificate.",
          {.omit_empty = true});
  v.field("verify_names", t.verify_names,
          "Expected instead of `server_name`: the certificate must have one of these DNS names, IP addresses or URIs "
          "(`spiffe://mesh/app`).",
          {.omit_empty = true, .one_word = true, .min = 1});
  v.field("certificate", t.certificate, "Presented to endpoints that request one.", {.omit_empty = true});
  v.field("alpn", t.alpn, "Application protocols that are offered.",
          {.omit_empty = true, .min = 1, .default_text = "with `protocol: http2`: `[ h2 ]`"});
  v.field("min_version", t.min_version, "Minimum version of TLS.");
}

template <class V>
void describe(V& v, Alts& a) {
  v.field(
      "handshaker", a.handshaker,
      "The ALTS handshaker service: an address, or a name with a port, which is looked up for each connection to it. "
      "Give either this, or `certificates` with `peer_ca`.",
      {.omit_empty = true});
  v.field("certificates", a.certificates,
          "Without a service, between Sluices: the certificate presented to the peer, which must present one too.",
          {.omit_empty = true, .min = 1});
  v.field("peer_ca", a.peer_ca, "PEM file of the authorities that the peer's certificate must come from.",
          {.omit_empty = true});
  v.field("target_identities", a.target_identities,
          "Accepted identities of the peer: service accounts (no host names), or names in its certificate (URI, DNS, "
          "e-mail, else the common name). Without them, any authenticated peer.",
          {.omit_empty = true, .min = 1});
  v.field("max_frame_size", a.max_frame_size, "Largest frame that is offered to the peer, and sent where it agrees.",
          {.min = 16 * kKiB, .max = kMiB});
}

template <class V>
void describe(V& v, ListenerAlts& a) {
  describe(v, static_cast<Alts&>(a));
  v.field("handshake_timeout", a.handshake_timeout, "How long the handshake may take.", {.min = 1});
  v.field("max_handshakes", a.max_handshakes, "Concurrent handshakes, as in `tls`; 0 = unlimited.");
}

template <class V>
void describe(V& v, Listener& l) {
  v.field("name", l.name, "Name in logs and counters.", {.required = true});
  v.field("address", l.addresses,
          "Where to accept: `0.0.0.0:443`, `\"[::]:443\"` (IPv4, too: see `ipv6_only`), `unix:/run/a.sock` or "
          "`unix:@abstract`; port 0 lets the kernel choose.",
          {.required = true, .one_word = true, .min = 1});
  v.field(
      "server_names", l.server_names,
      "TLS server names that this listener is for; several listeners may have the same addresses, if all but at most "
      "one of them have this. `*.example.com`: any one label, `**.example.com`: one or more. Without it: all other "
      "clients.",
      {.omit_empty = true, .one_word = true, .min = 1});
  v.field(
      "ipv6_only", l.ipv6_only,
      "Whether `[::]` accepts IPv6 only. It does in any case if a listener has an IPv4 address with the same port.");
  v.field("backlog", l.backlog, "Connections the kernel keeps waiting, per worker (it clamps to net.core.somaxconn).",
          {.min = 1, .max = 65535});
  v.field("max_connections", l.max_connections, "Open connections of this listener; 0 = unlimited.");
  v.field("max_connections_per_source", l.max_connections_per_source,
          "Open connections from one IPv4 address or IPv6 /64; 0 = unlimited.");
  v.field("connection_rate_limits", l.connection_rate_limits,
          "Names of `rate_limits` by source, all of which must admit a new connection; else it is closed.",
          {.omit_empty = true, .one_word = true, .min = 1});
  v.field(
      "handshake_rate_limits", l.handshake_rate_limits,
      "Names of `rate_limits` by source or server name, all of which must admit a TLS handshake; else the connection "
      "is closed, before anything is computed for it.",
      {.omit_empty = true, .one_word = true, .min = 1});
  v.field("proxy_protocol", l.proxy_protocol, "The client's address, from a proxy in front.");
  v.field("keepalive", l.keepalive, "Keep-alive probes towards clients.");
  v.field("nodelay", l.nodelay, "TCP_NODELAY towards clients.");
  v.field("tls", l.tls, "Terminates TLS here. Without it TLS passes through, and routes may look at its ClientHello.",
          {.omit_empty = true});
  v.field("alts", l.alts, "Terminates ALTS here, instead of TLS.", {.omit_empty = true});
  v.field("tcp", l.tcp, "Forwards bytes as they are.", {.required = true, .unless = "http", .omit_empty = true});
  v.field("http", l.http,
          "Forwards requests of HTTP/1.1 and HTTP/2. ALPN selects the version, otherwise the client's first bytes.",
          {.unless = "tcp", .omit_empty = true});
}

template <class V>
void describe(V& v, Limits& l) {
  v.field("max_connections", l.max_connections,
          "Open connections of the whole process. `auto`: 50000, or half of the file-descriptor limit if that is less.",
          {.min = 1});
}

template <class V>
void describe(V& v, Memory& m) {
  v.field("worker_budget", m.worker_budget,
          "Buffer memory one worker may always hold. A quarter of it is a reserve for connections that hold little.",
          {.min = kMiB});
  v.field("budget", m.budget,
          "Buffer memory all workers together may hold; 0 = `worker_budget` of each. What is beyond these is only "
          "borrowed.");
  v.field("lendable", m.lendable,
          "The part of `worker_budget` that other workers may borrow while this one does not need it, in percent; 0 = "
          "none.",
          {.max = 90});
  v.field("ring_entries", m.ring_entries,
          "Buffers posted to the kernel per ring tier and worker; a power of two. Up to 1 MiB of small ones while many "
          "clients "
          "send at once.",
          {.min = 1, .max = 32768});
  v.field("zero_copy_from", m.zero_copy_from, "Sends of at least this size go out without a copy; 0 = never.");
  v.field("rings", m.rings, "Kind of provided-buffer rings. `auto`: incremental where the kernel can.");
}

template <class V>
void describe(V& v, Log& l) {
  v.field("level", l.level, "The lowest level that is logged.");
  v.field("format", l.format, "Lines of text, or a JSON object on each line: see docs/operating/logs.md.");
  v.field("to", l.to,
          "Where lines go: `stderr`, a file, or a syslog daemon, by RFC 5424 to `/dev/log`, or to the socket or the "
          "address (UDP) that is named.");
}

template <class V>
void describe(V& v, Admin& a) {
  v.field("address", a.addresses,
          "Where operators and their tools connect: `127.0.0.1:9901`, `unix:/run/sluice/admin.sock`. Addresses that "
          "other machines can reach need `token_file`, or `tls` with `client_certificate: require`.",
          {.required = true, .one_word = true, .min = 1});
  v.field("mode", a.mode, "Permissions of the files of Unix sockets.");
  v.field("token_file", a.token_file,
          "File with the token that each request must carry, as `Authorization: Bearer TOKEN`: at least 16 characters.",
          {.omit_empty = true});
  v.field("tls", a.tls, "Terminates TLS, as on a listener; not on Unix sockets.", {.omit_empty = true});
  v.field(
      "envoy_stats", a.envoy_stats,
      "Also shows the counters at `/stats/prometheus`, under the names that they have in Envoy: for its dashboards.");
  v.field("max_connections", a.max_connections, "Open connections; beyond it new ones are closed.",
          {.min = 1, .max = 10000});
  v.field("idle_timeout", a.idle_timeout, "Closes a connection without a request.", {.min = 1});
  v.field("header_timeout", a.header_timeout, "How long a request may take to arrive, from its first byte.",
          {.min = 1});
  v.field("send_timeout", a.send_timeout, "Resets a connection whose client takes nothing of a response for this time.",
          {.min = 1});
}

template <class V>
void describe(V& v, BodyFile& f) {
  v.field("directory", f.directory, "Its directory. The file has no name there.");
  v.field("limit", f.limit, "How large it may become on disk.", {.min = kMiB});
}

template <class V>
void describe(V& v, Reload& r) {
  v.field("max_generations", r.max_generations,
          "Configurations in use at a time, each by connections that began with it. Beyond it, those of the oldest one "
          "are drained, for up to `shutdown_timeout`.",
          {.min = 1, .max = 1000});
}

template <class V>
void describe(V& v, RateLimit& r) {
  v.field("name", r.name, "Name by which listeners and routes refer to it, in counters and in responses.",
          {.required = true});
  v.field("key", r.key,
          "What requests have in common that count together: all of these. A request that lacks one counts together "
          "with those of the same source that lack it, too.",
          {.omit_empty = true, .default_text = "`{ source: true }`"});
  v.field("rate", r.rate,
          "How many are admitted for each key: in a second (`100/s`), minute (`20/m`) or hour (`1000/h`). A size "
          "(`2MiB/s`) limits bytes of bodies; see `response_bandwidth`.",
          {.required = true});
  v.field("burst", r.burst, "How many are admitted at once, after a pause; `auto`: as many as `rate` says.");
  v.field(
      "delay", r.delay,
      "How long a request over the rate may wait for its turn; one that would wait longer is refused. 0 = none waits.",
      {.max = 60'000});
  v.field("entries", r.entries, "How many keys are remembered, in 8 bytes each.", {.min = 8, .max = 16'777'216});
  v.field("status", r.status, "Status of the response to a refused request.", {.min = 400, .max = 599});
  v.field("dry_run", r.dry_run, "Refuses and delays nothing, and counts what it would refuse or delay.");
}

template <class V>
void describe(V& v, OverloadMemory& m) {
  v.field("enabled", m.enabled, "Whether the marks below have an effect.");
  v.field("limit", m.limit, "Limit of the process's resident memory.",
          {.omit_empty = true, .min = 16 * kMiB, .default_text = "the limit of its cgroup, or the machine's memory"});
  v.field("reduce", m.reduce,
          "Percent of the limit from which connections end with their response or, with HTTP/2, when they are idle, "
          "`idle_timeout` is reduced to as little as a tenth, and less may wait in memory.",
          {.min = 1, .max = 100});
  v.field("close", m.close,
          "Percent of the limit from which the connections are closed that hold most for what they have transferred.",
          {.min = 1, .max = 100});
  v.field("refuse", m.refuse, "Percent of the limit from which new connections are refused.", {.min = 1, .max = 100});
}

template <class V>
void describe(V& v, OverloadDelay& d) {
  v.field("target", d.target,
          "How long a worker's events may wait for their turn. Beyond it a share of the requests gets 503; 0 = never.");
  v.field("interval", d.interval, "How long they must have waited longer than that before a request is refused.",
          {.min = 10, .max = 60'000});
  v.field("refuse", d.refuse,
          "The highest `priority` of which requests are refused: those of `low` routes only, or, when refusing all of "
          "them is not enough, those of `normal` ones, too.");
}

template <class V>
void describe(V& v, Overload& o) {
  v.field("memory", o.memory, "Marks of the memory in use.");
  v.field("delay", o.delay, "More requests than a worker has time for.");
}

template <class V>
void describe(V& v, Config& c) {
  v.directive("include",
              "More files of this configuration: paths, or patterns such as `conf.d/*.yaml`, relative to the folder of "
              "the file that has this key.");
  v.field("workers", c.workers, "Threads. `auto`: the CPUs that the affinity mask and the cgroup's quota allow.",
          {.min = 1, .max = 1024});
  v.field("shutdown_timeout", c.shutdown_timeout,
          "How long open connections may go on once no new ones are accepted, after SIGTERM or SIGINT. Another signal "
          "ends them.");
  v.field("shutdown_delay", c.shutdown_delay,
          "How long new connections are still accepted after SIGTERM or SIGINT, while routes with `readiness` respond "
          "with 503, so that a load balancer notices. Another signal skips it.");
  v.field("reload", c.reload, "Changes of the configuration in the running process.");
  v.field("watch", c.watch, "Reloads the configuration when one of its files changes, certificates included.");
  v.field("user", c.user,
          "`NAME` or `NAME:GROUP`: the user that a process which is started as root changes to, once it has bound its "
          "addresses and read its files. See docs/operating/hardening.md.",
          {.omit_empty = true});
  v.field("core_dumps", c.core_dumps,
          "Whether a crash may leave a core dump, which has private keys in it. `off`: no, and no other process of the "
          "same user can read the memory. `auto`: `off` with `user`, otherwise as the system has it.");
  v.field(
      "sandbox", c.sandbox,
      "Whether the process can open only files in the folders of its configuration and its logs, make only the system "
      "calls that serving takes, and start no program, which includes an upgrade. See docs/operating/hardening.md.");
  v.field("log", c.log, "The run-time log: what happens to the proxy and its endpoints.");
  v.field(
      "admin", c.admin,
      "The admin listener: metrics, state and run-time changes by HTTP/1.1, see docs/operating/admin.md. Off without "
      "it.",
      {.omit_empty = true});
  v.field("limits", c.limits, "Bounds on the whole process.");
  v.field("memory", c.memory, "Buffer memory.");
  v.field("overload", c.overload,
          "What is given up first when memory or time is short. See docs/operating/overload.md.");
  v.field("body_file", c.body_file, "The file that holds buffered bodies, on routes with `buffer`.");
  v.field("rate_limits", c.rate_limits,
          "Limits on the rate of requests and connections, which listeners and routes name.", {.omit_empty = true});
  v.field("listeners", c.listeners, "Where connections are accepted, and what is done with them.",
          {.required = true, .min = 1});
  v.field("upstreams", c.upstreams, "Named sets of servers that connections are forwarded to.");
}

}  // namespace sluice::config
