#include "proxy/convert/haproxy/servers.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "proxy/common/suggestions.h"
#include "proxy/config/model/resolve.h"
#include "proxy/convert/haproxy/parameter_rule.h"

namespace sluice::convert::haproxy {
namespace {

using config::Node;

// The parameters of a server, with those of `default-server` in front.
class Parameters {
 public:
  explicit Parameters(std::vector<std::string> words) : words_(std::move(words)) {}

  bool has(std::string_view name) const {
    bool on = false;
    for (const std::string& word : words_) {
      if (word == name) on = true;
      if (word == absl::StrCat("no-", name)) on = false;
    }
    return on;
  }
  // The last value; empty if there is none.
  std::string_view value(std::string_view name) const {
    for (size_t i = words_.size(); i > 1; --i) {
      if (words_[i - 2] == name) return words_[i - 1];
    }
    return "";
  }
  const std::vector<std::string>& words() const { return words_; }

 private:
  std::vector<std::string> words_;
};

constexpr ParameterRule kServerParameters[] = {
    {"addr", true, false},
    {"agent-addr", true, false},
    {"agent-inter", true, false},
    {"agent-port", true, false},
    {"agent-send", true, false},
    {"allow-0rtt", false, true},
    {"alpn", true, false},
    {"backup", false, false},
    {"ca-file", true, false},
    {"check", false, false},
    {"check-alpn", true, true},
    {"check-proto", true, true},
    {"check-send-proxy", false, true},
    {"check-sni", true, true},
    {"check-ssl", false, true},
    {"ciphers", true, true},
    {"ciphersuites", true, true},
    {"cookie", true, true},
    {"crl-file", true, false},
    {"crt", true, false},
    {"disabled", false, false},
    {"downinter", true, true},
    {"enabled", false, true},
    {"error-limit", true, true},
    {"fall", true, false},
    {"fastinter", true, true},
    {"force-tlsv12", false, true},
    {"force-tlsv13", false, true},
    {"id", true, true},
    {"init-addr", true, true},
    {"inter", true, false},
    {"interface", true, false},
    {"log-proto", true, true},
    {"max-reuse", true, true},
    {"maxconn", true, false},
    {"maxqueue", true, true},
    {"minconn", true, true},
    {"namespace", true, false},
    {"no-backup", false, true},
    {"no-check", false, true},
    {"no-ssl", false, true},
    {"no-ssl-reuse", false, true},
    {"no-sslv3", false, true},
    {"no-tls-tickets", false, true},
    {"no-tlsv10", false, true},
    {"no-tlsv11", false, true},
    {"no-verifyhost", false, true},
    {"non-stick", false, true},
    {"observe", true, true},
    {"on-error", true, true},
    {"on-marked-down", true, true},
    {"on-marked-up", true, true},
    {"pool-low-conn", true, true},
    {"pool-max-conn", true, true},
    {"pool-purge-delay", true, true},
    {"port", true, false},
    {"proto", true, false},
    {"proxy-v2-options", true, false},
    {"redir", true, false},
    {"resolve-net", true, false},
    {"resolve-opts", true, true},
    {"resolve-prefer", true, false},
    {"resolvers", true, false},
    {"rise", true, false},
    {"send-proxy", false, false},
    {"send-proxy-v2", false, false},
    {"set-proxy-v2-tlv-fmt", true, false},
    {"slowstart", true, false},
    {"sni", true, false},
    {"socks4", true, false},
    {"source", true, false},
    {"ssl", false, false},
    {"ssl-max-ver", true, true},
    {"ssl-min-ver", true, false},
    {"stick", false, true},
    {"tcp-ut", true, true},
    {"tfo", false, true},
    {"track", true, false},
    {"usesrc", true, false},
    {"verify", true, false},
    {"verifyhost", true, false},
    {"weight", true, false},
    {"ws", true, true},
};

bool is_mapped(std::string_view word) {
  constexpr std::string_view kNames[] = {"weight",         "check",      "inter",         "rise",     "fall",
                                         "backup",         "maxconn",    "port",          "ssl",      "verify",
                                         "ca-file",        "crt",        "sni",           "alpn",     "proto",
                                         "ssl-min-ver",    "send-proxy", "send-proxy-v2", "disabled", "resolvers",
                                         "resolve-prefer", "slowstart",  "verifyhost"};
  return std::find(std::begin(kNames), std::end(kNames), word) != std::end(kNames);
}

std::optional<std::string> address_text(std::string_view text) {
  for (const std::string_view prefix : {"ipv4@", "ipv6@"}) absl::ConsumePrefix(&text, prefix);
  std::string made(text);
  if (absl::ConsumePrefix(&text, "unix@") || text.starts_with('/')) made = absl::StrCat("unix:", text);
  if (absl::ConsumePrefix(&text, "abns@")) made = absl::StrCat("unix:@", text);
  // `::1:80`
  if (const size_t colon = made.rfind(':');
      !made.starts_with("unix:") && std::count(made.begin(), made.end(), ':') > 1 && !made.starts_with('[')) {
    made = absl::StrCat("[", made.substr(0, colon), "]", made.substr(colon));
  }
  return config::EndpointAddress::parse(made).ok() ? std::optional(made) : std::nullopt;
}

class ServerReader {
 public:
  ServerReader(const Proxy& backend, State& state) : backend_(backend), state_(state) {}

  Servers read() {
    for (const Line* const line : backend_.lines) {
      if (line->keyword() == "default-server") {
        defaults_.insert(defaults_.end(), line->words.begin() + 1, line->words.end());
      } else if (line->keyword() == "server") {
        add(*line, 3, line->word(2));
      } else if (line->keyword() == "server-template") {
        add_template(*line);
      }
    }
    return std::move(made_);
  }

 private:
  void add_template(const Line& line) {
    // `server-template app 1-5 app.test:80`
    std::string_view count = line.word(2);
    count.remove_prefix(count.rfind('-') == std::string_view::npos ? 0 : count.rfind('-') + 1);
    if (uint32_t most = 0; absl::SimpleAtoi(count, &most) && most >= 1 && most <= 1024)
      made_.max_addresses = absl::StrCat(most);
    add(line, 4, line.word(3));
  }

  void add(const Line& line, size_t from, std::string_view address) {
    std::vector<std::string> words = defaults_;
    for (size_t i = from; i < line.words.size(); ++i) words.push_back(line.words[i]);
    const Parameters parameters(std::move(words));
    report_words(line, parameters);
    if (parameters.has("disabled")) return state_.ignore(line, "it is disabled: it is left out");
    const std::string_view weight = parameters.value("weight");
    if (weight == "0") return state_.ignore(line, "its weight is 0: it is left out");
    Node endpoint = map_node();
    if (address.starts_with('_')) {
      put(endpoint, "srv", address);
    } else if (const std::optional<std::string> text = address_text(address)) {
      put(endpoint, "address", *text);
    } else {
      return state_.refuse(line,
                           absl::StrCat(config::in_quotes(address), " is no address with a port: it is left out"));
    }
    if (!weight.empty() && weight != "1") put_count(endpoint, "weight", line, weight, 1, 1000, state_);
    if (parameters.has("backup")) {
      put(endpoint, "priority", "1");
      made_.has_backup = true;
    }
    if (!put_tls(line, parameters)) made_.usable = false;
    put_shared(line, parameters);
    const bool plain = endpoint.keys.size() == 1 && endpoint.keys[0].text == "address";
    made_.endpoints.items.push_back(plain ? scalar_node(endpoint.items[0].text) : std::move(endpoint));
  }

  void report_words(const Line& line, const Parameters& parameters) {
    const std::vector<std::string>& words = parameters.words();
    for (size_t i = 0; i < words.size(); ++i) {
      const ParameterRule* const rule = find_parameter(kServerParameters, words[i]);
      if (!is_mapped(words[i]) && !(rule && rule->is_ignored)) {
        state_.refuse(line, absl::StrCat("there is no counterpart of ", config::in_quotes(words[i])));
        if (words[i] == "crl-file") made_.usable = false;
      }
      if (rule && rule->takes_value) ++i;
    }
  }

  // What is one value for all servers.
  void put_one(const Line& line, std::string& known, std::string_view value, std::string_view name) {
    if (made_.endpoints.items.empty()) {
      known = value;
    } else if (known != value) {
      state_.refuse(line,
                    absl::StrCat(config::in_quotes(name), " is the same for all servers: that of the first counts"));
    }
  }

  void put_shared(const Line& line, const Parameters& parameters) {
    put_one(line, made_.proxy_protocol,
            parameters.has("send-proxy-v2") ? "v2"
            : parameters.has("send-proxy")  ? "v1"
                                            : "",
            "send-proxy");
    put_one(line, made_.max_connections, parameters.value("maxconn"), "maxconn");
    put_one(line, made_.slow_start, parameters.value("slowstart"), "slowstart");
    if (!parameters.value("resolvers").empty()) made_.resolvers = parameters.value("resolvers");
    made_.speaks_http2 =
        made_.speaks_http2 || parameters.value("proto") == "h2" || absl::StartsWith(parameters.value("alpn"), "h2");
    if (!parameters.has("check")) return;
    made_.is_checked = true;
    if (const std::string_view inter = parameters.value("inter"); !inter.empty())
      put_time(made_.check, "interval", line, inter, state_);
    if (const std::string_view rise = parameters.value("rise"); !rise.empty())
      put_count(made_.check, "healthy_after", line, rise, 1, 1000, state_);
    if (const std::string_view fall = parameters.value("fall"); !fall.empty())
      put_count(made_.check, "unhealthy_after", line, fall, 1, 1000, state_);
    if (const std::string_view port = parameters.value("port"); !port.empty())
      put_count(made_.check, "port", line, port, 1, 65535, state_);
  }

  // Returns false if the server would be trusted more than in HAProxy.
  bool put_tls(const Line& line, const Parameters& parameters) {
    Node tls = map_node();
    const bool on = parameters.has("ssl");
    bool known = true;
    if (on) {
      const bool verify = parameters.value("verify") != "none";
      if (!verify) put(tls, "verify", "false");
      const std::string_view ca = parameters.value("ca-file");
      if (verify && !ca.empty() && ca != "@system-ca") put(tls, "ca", state_.file(ca, "ca-base"));
      std::string_view name = parameters.value("verifyhost");
      if (std::string_view sni = parameters.value("sni"); !sni.empty()) {
        const bool fixed = absl::ConsumePrefix(&sni, "str(") && absl::ConsumeSuffix(&sni, ")");
        if (fixed) name = sni;
        if (!fixed) state_.refuse(line, "the name that is sent is a fixed one: sni str(NAME)");
        known = known && (fixed || !verify);
      }
      if (!name.empty()) put(tls, "server_name", name);
      if (verify && name.empty()) {
        state_.refuse(line, "expected verifyhost or sni with the name in the certificate");
        known = false;
      }
      if (const std::string_view crt = parameters.value("crt"); !crt.empty()) {
        Node& certificate = put(tls, "certificate", map_node());
        put(certificate, "chain", state_.file(crt, "crt-base"));
        put(certificate, "key", state_.file(crt, "crt-base"));
      }
      if (parameters.value("ssl-min-ver") == "TLSv1.3") put(tls, "min_version", "1.3");
    }
    if (made_.endpoints.items.empty()) {
      made_.tls = std::move(tls);
      made_.has_tls = on;
    } else if (on != made_.has_tls || !same_value(tls, made_.tls)) {
      state_.refuse(
          line, "all servers of a backend are spoken to in the same way, with TLS or without: its requests get 503");
      known = false;
    }
    return known;
  }

  const Proxy& backend_;
  State& state_;
  Servers made_;
  std::vector<std::string> defaults_;
};

}  // namespace

Servers read_servers(const Proxy& backend, State& state) { return ServerReader(backend, state).read(); }

}  // namespace sluice::convert::haproxy
