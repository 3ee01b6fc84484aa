#include "proxy/convert/haproxy/keyword_table.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"

namespace sluice::convert::haproxy {
namespace {

enum class Fate : uint8_t { kMapped, kIgnored, kRefused };
constexpr Fate kMapped = Fate::kMapped, kIgnored = Fate::kIgnored, kRefused = Fate::kRefused;

struct KnownLine {
  std::string_view name;  // The keyword, or with `option`, `timeout` and the like the second word, too.
  Fate fate;
  std::string_view message = {};
};

constexpr std::string_view kLogs = "see docs/guides/access-log.md and docs/operating/logs.md";
constexpr std::string_view kAdmin = "see docs/operating/admin.md";
constexpr std::string_view kSockets = "sockets have Sluice's own settings";
constexpr std::string_view kProcess = "a matter of HAProxy's process";
constexpr std::string_view kTls = "Sluice chooses ciphers and versions by itself: see docs/guides/tls.md";
constexpr std::string_view kTables =
    "there are no tables; rules that look at one are refused. See docs/guides/rate-limits.md";
constexpr std::string_view kAlways = "that is so in any case";
constexpr std::string_view kChecks = "see `health_check`";

// Of all sections but `global`.
constexpr auto kLines = std::to_array<KnownLine>({
    {"acl", kMapped},
    {"backlog", kIgnored, kSockets},
    {"balance", kMapped},
    {"bind", kMapped},
    {"capture", kIgnored, kLogs},
    {"clitcpka-cnt", kIgnored, kSockets},
    {"clitcpka-idle", kIgnored, kSockets},
    {"clitcpka-intvl", kIgnored, kSockets},
    {"compression", kMapped},
    {"cookie", kMapped},
    {"default-server", kMapped},
    {"default_backend", kMapped},
    {"description", kIgnored, "it is for people"},
    {"disabled", kMapped},
    {"email-alert", kIgnored, kAdmin},
    {"enabled", kIgnored, kAlways},
    {"errorfile", kIgnored,
     "pages for errors are those of Sluice, or of `errors`, whose files have no head: see docs/guides/http.md"},
    {"errorfiles", kIgnored, "pages for errors are those of Sluice, or of `errors`: see docs/guides/http.md"},
    {"errorloc", kRefused, "see `errors` in docs/guides/http.md"},
    {"errorloc302", kRefused, "see `errors` in docs/guides/http.md"},
    {"errorloc303", kRefused, "see `errors` in docs/guides/http.md"},
    {"filter", kRefused, "there are no filters: requests that get here get 403"},
    {"fullconn", kIgnored, "connections to each server are bounded"},
    {"hash-type", kMapped},
    {"http-after-response", kMapped},
    {"http-check", kMapped},
    {"http-error", kRefused, "see `errors` in docs/guides/http.md"},
    {"http-request", kMapped},
    {"http-response", kMapped},
    {"http-reuse", kIgnored, "connections to servers are shared"},
    {"http-send-name-header", kRefused, "servers do not get their names"},
    {"id", kIgnored, "it is for people"},
    {"load-server-state-from-file", kIgnored, kProcess},
    {"log", kIgnored, kLogs},
    {"log-format", kIgnored, kLogs},
    {"log-format-sd", kIgnored, kLogs},
    {"log-tag", kIgnored, kLogs},
    {"max-keep-alive-queue", kIgnored, "see `pool` of upstreams"},
    {"maxconn", kMapped},
    {"mode", kMapped},
    {"monitor", kRefused, "see `readiness` in docs/guides/http.md"},
    {"monitor-uri", kRefused, "see `readiness` in docs/guides/http.md"},
    {"no", kMapped},
    {"option", kMapped},
    {"option abortonclose", kIgnored, kAlways},
    {"option accept-invalid-http-request", kRefused, "malformed requests are refused"},
    {"option accept-invalid-http-response", kRefused, "malformed responses are refused"},
    {"option allbackups", kIgnored, kAlways},
    {"option checkcache", kIgnored, "there is no cache"},
    {"option clitcpka", kIgnored, kSockets},
    {"option contstats", kIgnored, kAdmin},
    {"option disable-h2-upgrade", kIgnored, "the first bytes decide about HTTP/2"},
    {"option dontlog-normal", kIgnored, kLogs},
    {"option dontlognull", kIgnored, kLogs},
    {"option external-check", kIgnored, kChecks},
    {"option forceclose", kMapped},
    {"option forwardfor", kMapped},
    {"option h1-case-adjust-bogus-client", kIgnored, "names of fields go on as they came"},
    {"option h1-case-adjust-bogus-server", kIgnored, "names of fields go on as they came"},
    {"option http-buffer-request", kIgnored, "see `buffer` in docs/guides/buffering.md"},
    {"option http-ignore-probes", kIgnored, kAlways},
    {"option http-keep-alive", kIgnored, kAlways},
    {"option http-no-delay", kIgnored, kAlways},
    {"option http-pretend-keepalive", kIgnored, kAlways},
    {"option http-restrict-req-hdr-names", kIgnored, "names with an underscore are refused"},
    {"option http-server-close", kIgnored, "connections to servers are kept"},
    {"option http-use-htx", kIgnored, kAlways},
    {"option httpchk", kMapped},
    {"option httpclose", kMapped},
    {"option httplog", kIgnored, kLogs},
    {"option httpslog", kIgnored, kLogs},
    {"option independent-streams", kIgnored, kAlways},
    {"option ldap-check", kMapped},
    {"option log-health-checks", kIgnored, kLogs},
    {"option log-separate-errors", kIgnored, kLogs},
    {"option logasap", kIgnored, kLogs},
    {"option mysql-check", kMapped},
    {"option nolinger", kIgnored, kSockets},
    {"option originalto", kRefused, "see `request_headers` in docs/guides/http.md"},
    {"option persist", kIgnored, "a server that is down gets no requests"},
    {"option pgsql-check", kMapped},
    {"option prefer-last-server", kIgnored, "connections to servers are shared"},
    {"option redis-check", kMapped},
    {"option redispatch", kIgnored, kAlways},
    {"option smtpchk", kMapped},
    {"option socket-stats", kIgnored, kAdmin},
    {"option splice-auto", kIgnored, kSockets},
    {"option splice-request", kIgnored, kSockets},
    {"option splice-response", kIgnored, kSockets},
    {"option srvtcpka", kIgnored, kSockets},
    {"option ssl-hello-chk", kMapped},
    {"option tcp-check", kMapped},
    {"option tcp-smart-accept", kIgnored, kSockets},
    {"option tcp-smart-connect", kIgnored, kSockets},
    {"option tcpka", kIgnored, kSockets},
    {"option tcplog", kIgnored, kLogs},
    {"option transparent", kRefused, "the address of a connection does not choose the server"},
    {"redirect", kMapped},
    {"retries", kMapped},
    {"retry-on", kMapped},
    {"server", kMapped},
    {"server-state-file-name", kIgnored, kProcess},
    {"server-template", kMapped},
    {"source", kRefused, "the system chooses the address of connections to servers"},
    {"srvtcpka-cnt", kIgnored, kSockets},
    {"srvtcpka-idle", kIgnored, kSockets},
    {"srvtcpka-intvl", kIgnored, kSockets},
    {"stats", kIgnored, kAdmin},
    {"stick", kRefused, kTables},
    {"stick-table", kIgnored, kTables},
    {"tcp-check", kIgnored, kChecks},
    {"tcp-request", kMapped},
    {"tcp-response", kRefused, "what servers send is not looked at"},
    {"timeout", kMapped},
    {"timeout check", kMapped},
    {"timeout client", kMapped},
    {"timeout client-fin", kIgnored, "half-closed connections end by `idle_timeout`"},
    {"timeout connect", kMapped},
    {"timeout http-keep-alive", kMapped},
    {"timeout http-request", kMapped},
    {"timeout queue", kIgnored, "see `pool.max_pending`"},
    {"timeout server", kMapped},
    {"timeout server-fin", kIgnored, "half-closed connections end by `idle_timeout`"},
    {"timeout tarpit", kIgnored, "responses are not delayed"},
    {"timeout tunnel", kMapped},
    {"unique-id-format", kIgnored, "see `request_id` in docs/guides/http.md"},
    {"unique-id-header", kMapped},
    {"use-fcgi-app", kRefused, "servers are spoken to by HTTP only"},
    {"use-server", kRefused, "the balance chooses the server"},
    {"use_backend", kMapped},
});
static_assert(std::is_sorted(kLines.begin(), kLines.end(),
                             [](const KnownLine& a, const KnownLine& b) { return a.name < b.name; }));

// Of `global`: what is not here is a matter of the process.
constexpr auto kGlobal = std::to_array<KnownLine>({
    {"ca-base", kMapped},
    {"crt-base", kMapped},
    {"group", kMapped},
    {"log", kIgnored, kLogs},
    {"log-send-hostname", kIgnored, kLogs},
    {"log-tag", kIgnored, kLogs},
    {"lua-load", kRefused, "there are no scripts"},
    {"lua-load-per-thread", kRefused, "there are no scripts"},
    {"maxconn", kMapped},
    {"nbthread", kMapped},
    {"ssl-default-bind-ciphers", kIgnored, kTls},
    {"ssl-default-bind-ciphersuites", kIgnored, kTls},
    {"ssl-default-bind-curves", kIgnored, kTls},
    {"ssl-default-bind-options", kMapped},
    {"ssl-default-server-ciphers", kIgnored, kTls},
    {"ssl-default-server-ciphersuites", kIgnored, kTls},
    {"ssl-default-server-options", kIgnored, kTls},
    {"ssl-dh-param-file", kIgnored, kTls},
    {"ssl-server-verify", kRefused, "certificates of servers are verified: see `tls.verify` of upstreams"},
    {"stats", kIgnored, kAdmin},
    {"user", kMapped},
});

template <size_t N>
const KnownLine* find(const std::array<KnownLine, N>& table, std::string_view name) {
  const auto found = std::find_if(table.begin(), table.end(), [&](const KnownLine& row) { return row.name == name; });
  return found == table.end() ? nullptr : &*found;
}

void report_line(const Line& line, const KnownLine* known, Findings& findings) {
  if (known == nullptr)
    return report(line, Severity::kRefused, "sluice convert does not know it: requests that get here get 403",
                  findings);
  if (known->fate == Fate::kMapped) return;
  report(line, known->fate == Fate::kIgnored ? Severity::kIgnored : Severity::kRefused, known->message, findings);
}

std::string name_of_line(const Line& line) {
  const bool two = line.keyword() == "option" || line.keyword() == "timeout";
  return two ? absl::StrCat(line.keyword(), " ", line.word(1)) : line.keyword();
}

}  // namespace

bool is_known(const Line& line) { return find(kLines, name_of_line(line)) != nullptr; }

void report_unmapped(const Section& section, Findings& findings) {
  static constexpr KnownLine kOfProcess{"", Fate::kIgnored, kProcess};
  for (const Line& line : section.lines) {
    if (section.kind == "global") {
      const KnownLine* const known = find(kGlobal, line.keyword());
      report_line(line, known == nullptr ? &kOfProcess : known, findings);
      continue;
    }
    report_line(line, find(kLines, name_of_line(line)), findings);
  }
}

}  // namespace sluice::convert::haproxy
