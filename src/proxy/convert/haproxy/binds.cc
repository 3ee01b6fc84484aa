#include "proxy/convert/haproxy/binds.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "proxy/common/suggestions.h"
#include "proxy/config/model/address.h"
#include "proxy/convert/haproxy/parameter_rule.h"

namespace sluice::convert::haproxy {
namespace {

using config::Node;

constexpr uint32_t kMostPorts = 100;

constexpr ParameterRule kBindParameters[] = {
    {"allow-0rtt", false, true},
    {"alpn", true, false},
    {"backlog", true, false},
    {"ca-file", true, false},
    {"ca-ignore-err", true, false},
    {"ca-sign-file", true, false},
    {"ca-sign-pass", true, false},
    {"ca-verify-file", true, false},
    {"ciphers", true, true},
    {"ciphersuites", true, true},
    {"client-sigalgs", true, false},
    {"crl-file", true, false},
    {"crt", true, false},
    {"crt-ignore-err", true, false},
    {"crt-list", true, false},
    {"curves", true, true},
    {"defer-accept", false, true},
    {"ecdhe", true, true},
    {"force-tlsv12", false, true},
    {"gid", true, true},
    {"group", true, true},
    {"id", true, true},
    {"interface", true, false},
    {"level", true, true},
    {"maxconn", true, true},
    {"mode", true, true},
    {"mss", true, true},
    {"name", true, true},
    {"namespace", true, false},
    {"nice", true, true},
    {"no-sslv3", false, true},
    {"no-tlsv10", false, true},
    {"no-tlsv11", false, true},
    {"npn", true, true},
    {"ocsp-update", true, false},
    {"prefer-client-ciphers", false, true},
    {"process", true, true},
    {"proto", true, false},
    {"severity-output", true, true},
    {"shards", true, true},
    {"sigalgs", true, true},
    {"ssl-max-ver", true, true},
    {"ssl-min-ver", true, false},
    {"strict-sni", false, true},
    {"tcp-ut", true, true},
    {"tfo", false, true},
    {"thread", true, true},
    {"tls-ticket-keys", true, true},
    {"uid", true, true},
    {"user", true, true},
    {"v4v6", false, true},
    {"v6only", false, true},
    {"verify", true, false},
};

class BindReader {
 public:
  BindReader(const Line& line, State& state) : line_(line), state_(state) {}

  std::optional<BindGroup> read() {
    for (const std::string_view address : absl::StrSplit(line_.word(1), ',')) add_address(address);
    if (made_.addresses.empty()) return std::nullopt;
    for (size_t i = 2; i < line_.words.size(); ++i) {
      const std::string& word = line_.words[i];
      const ParameterRule* const rule = find_parameter(kBindParameters, word);
      const bool takes_value = rule && rule->takes_value;
      if (!read_word(word, takes_value ? line_.word(i + 1) : "", rule && rule->is_ignored)) return std::nullopt;
      if (takes_value) ++i;
    }
    if (made_.has_tls && !put_tls()) return std::nullopt;
    if (ip6_only_) put(made_.keys, "ipv6_only", "true");
    return std::move(made_);
  }

 private:
  void add_address(std::string_view text) {
    for (const std::string_view prefix : {"ipv4@", "ipv6@"}) absl::ConsumePrefix(&text, prefix);
    std::string address(text);
    if (absl::ConsumePrefix(&text, "unix@") || text.starts_with('/')) {
      made_.addresses.push_back(absl::StrCat("unix:", text));
      return;
    }
    if (absl::ConsumePrefix(&text, "abns@")) {
      made_.addresses.push_back(absl::StrCat("unix:@", text));
      return;
    }
    const size_t colon = address.rfind(':');
    std::string host = colon == std::string::npos ? address : address.substr(0, colon);
    const std::string_view ports = colon == std::string::npos ? "" : std::string_view(address).substr(colon + 1);
    if (host.empty() || host == "*") host = "0.0.0.0";
    if (absl::StrContains(host, ':') && !host.starts_with('[')) host = absl::StrCat("[", host, "]");
    if (host == "[::]") ip6_only_ = line_.has("v6only");
    const std::vector<std::string_view> ends = absl::StrSplit(ports, '-');
    uint32_t first = 0, last = 0;
    const bool known = absl::SimpleAtoi(ends.front(), &first) && absl::SimpleAtoi(ends.back(), &last) && first > 0 &&
                       last >= first && last <= 65535 && last - first < kMostPorts &&
                       config::Address::parse(absl::StrCat(host, ":1")).ok();
    if (!known)
      return state_.refuse(
          line_, absl::StrCat(config::in_quotes(address), " is no address, or a long range of ports: it is left out"));
    for (uint32_t port = first; port <= last; ++port) made_.addresses.push_back(absl::StrCat(host, ":", port));
    made_.port = made_.addresses.size() == 1 ? std::string(ends.front()) : "";
  }

  // Returns false if the address is left out.
  bool read_word(const std::string& word, std::string_view value, bool is_ignored) {
    if (word == "ssl") {
      made_.has_tls = true;
    } else if (word == "crt") {
      chains_.emplace_back(value);
    } else if (word == "alpn") {
      alpn_ = value;
    } else if (word == "verify") {
      verify_ = value;
    } else if (word == "ca-file") {
      authorities_ = value;
    } else if (word == "ssl-min-ver") {
      newest_ = value == "TLSv1.3";
    } else if (word == "force-tlsv13") {
      newest_ = true;
    } else if (word == "no-tls-tickets") {
      tickets_ = false;
    } else if (word == "accept-proxy") {
      put(put(made_.keys, "proxy_protocol", map_node()), "accept", "required");
    } else if (word == "backlog") {
      put_count(made_.keys, "backlog", line_, value, 1, 65535, state_);
    } else if (word == "proto" && value == "h2") {
      return true;  // Told by the first bytes.
    } else if (word == "crl-file" || word == "crt-list" || word == "ca-sign-file" || word == "ca-ignore-err" ||
               word == "crt-ignore-err" || word == "accept-netscaler-cip" || word == "transparent" ||
               word == "interface" || word == "namespace") {
      state_.refuse(line_,
                    absl::StrCat("there is no counterpart of ", config::in_quotes(word), ": the address is left out"));
      return false;
    } else if (!is_ignored) {
      state_.refuse(line_, absl::StrCat("there is no counterpart of ", config::in_quotes(word)));
    }
    return true;
  }

  // A folder stands for all files in it.
  void add_certificates(Node& list) {
    for (const std::string& each : chains_) {
      const std::string path = state_.file(each, "crt-base");
      std::vector<std::string> files{path};
      if (path.ends_with('/') || !absl::StrContains(path.substr(path.rfind('/') + 1), '.')) {
        const std::vector<std::string> inside = state_.disk.matches(absl::StrCat(absl::StripSuffix(path, "/"), "/*"));
        if (!inside.empty()) files = inside;
      }
      for (const std::string& file : files) {
        if (file.ends_with(".key") || file.ends_with(".ocsp") || file.ends_with(".issuer") || file.ends_with(".sctl"))
          continue;
        Node certificate = map_node();
        put(certificate, "chain", file);
        put(certificate, "key", file);
        list.items.push_back(std::move(certificate));
      }
    }
  }

  bool put_tls() {
    Node tls = map_node();
    Node certificates = list_node();
    add_certificates(certificates);
    if (certificates.items.empty()) {
      state_.refuse(line_, "there is no certificate: the address is left out");
      return false;
    }
    put(tls, "certificates", std::move(certificates));
    const std::vector<std::string> protocols =
        alpn_.empty() ? std::vector<std::string>{"http/1.1"} : absl::StrSplit(alpn_, ',');
    alpn_list_ = list_node(protocols);
    put(tls, "alpn", alpn_list_);
    if (newest_) put(tls, "min_version", "1.3");
    if (!tickets_) put(tls, "tickets", "false");
    if (verify_ == "required" || verify_ == "optional") {
      if (authorities_.empty()) {
        state_.refuse(line_, "expected ca-file: the address is left out");
        return false;
      }
      put(tls, "client_ca", state_.file(authorities_, "ca-base"));
      put(tls, "client_certificate", verify_ == "required" ? "require" : "request");
    }
    put(made_.keys, "tls", std::move(tls));
    return true;
  }

  const Line& line_;
  State& state_;
  BindGroup made_;
  std::vector<std::string> chains_;
  std::string alpn_, verify_, authorities_;
  Node alpn_list_;
  bool newest_ = false;
  bool tickets_ = true;
  bool ip6_only_ = false;
};

}  // namespace

std::vector<BindGroup> read_binds(const Proxy& frontend, State& state) {
  std::vector<BindGroup> made;
  for (const Line* const line : frontend.all("bind")) {
    std::optional<BindGroup> group = BindReader(*line, state).read();
    if (!group) continue;
    const auto same = std::find_if(made.begin(), made.end(), [&](const BindGroup& each) {
      return each.has_tls == group->has_tls && same_value(each.keys, group->keys);
    });
    if (same == made.end()) {
      made.push_back(*std::move(group));
    } else {
      same->addresses.insert(same->addresses.end(), group->addresses.begin(), group->addresses.end());
      if (same->port != group->port) same->port.clear();
    }
  }
  return made;
}

}  // namespace sluice::convert::haproxy
