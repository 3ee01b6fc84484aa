#include "proxy/config/load/validate_rate_limit.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "proxy/common/suggestions.h"
#include "proxy/config/load/validate_http.h"
#include "proxy/config/model/name.h"

namespace sluice::config {
namespace {

constexpr uint64_t kLeastBurstPart = 10;

class RateLimitChecker {
 public:
  RateLimitChecker(const Config& config, Report& report)
      : config_(config), report_(report), used_(config.rate_limits.size()) {
    for (const RateLimit& limit : config.rate_limits) {
      names_.push_back(limit.name);
      names_known_ = names_known_ && is_name(limit.name);
    }
  }

  void check() {
    for (size_t i = 0; i < config_.rate_limits.size(); ++i) {
      check_limit(config_.rate_limits[i], item_path("rate_limits", i));
    }
    for (size_t i = 0; i < config_.listeners.size(); ++i) {
      check_listener(config_.listeners[i], item_path("listeners", i));
    }
    for (size_t i = 0; i < used_.size(); ++i) {
      if (!used_[i]) report_.warn(item_path("rate_limits", i), "has no effect: no listener and no route names it");
    }
  }

 private:
  void check_limit(const RateLimit& limit, const std::string& path) {
    if (limit.rate.events() == 0) report_.error(path + ".rate", "expected a rate such as 100/s");
    limit.rate.is_bytes() ? check_bytes(limit, path) : check_events(limit, path);
    if (!limit.key) return;
    if (*limit.key == RateKey()) {
      report_.error(path + ".key",
                    "expected `source`, `route`, `host`, `sni`, `peer`, `header`, `cookie` or `jwt_claim`");
    }
    check_cookie_name(limit.key->cookie, path + ".key.cookie", report_);
  }

  void check_events(const RateLimit& limit, const std::string& path) {
    if (limit.burst.is_size()) {
      report_.error(path + ".burst",
                    absl::StrCat("expected a number such as 200, as `rate` has no bytes, got ", limit.burst.text()));
    } else if (limit.burst.amount() > Burst::kMaxEvents) {
      report_.error(path + ".burst",
                    absl::StrCat("expected a number from 1 to ", Burst::kMaxEvents, ", got ", limit.burst.text()));
    }
  }

  // A smaller burst would be used up between two turns of the timers, so that the rate could not be reached.
  void check_bytes(const RateLimit& limit, const std::string& path) {
    const uint64_t least = limit.rate.per_second() / kLeastBurstPart;
    if (limit.effective_burst() < least || limit.effective_burst() > Burst::kMaxBytes) {
      report_.error(path + ".burst",
                    absl::StrCat("expected from ", print_size({(least + kKiB - 1) / kKiB * kKiB}), ", 1/",
                                 kLeastBurstPart, " of what the rate admits in a second, to ",
                                 print_size({Burst::kMaxBytes}), ", got ", print_size({limit.effective_burst()})));
    }
    if (limit.delay.count() > 0) {
      report_.error(path + ".delay", "has no effect with a rate in bytes, which wait as long as they must: remove it");
    }
  }

  void check_listener(const Listener& listener, const std::string& path) {
    check_handshakes(listener, path + ".handshake_rate_limits");
    each_limit(listener.connection_rate_limits, path + ".connection_rate_limits",
               [&](const RateLimit& limit, const std::string& place) {
                 check_counts_events(limit, place);
                 check_no_delay(limit, place);
                 if (limit.effective_key() == RateKey{.source = true}) return;
                 report_.error(place, absl::StrCat(in_quotes(limit.name),
                                                   " counts by more than the source, which is all that is known "
                                                   "of a connection: give it `key: { source: true }`"));
               });
    if (listener.tcp) {
      check_bandwidth(listener.tcp->upload_bandwidth, listener, nullptr, path + ".tcp.upload_bandwidth");
      check_bandwidth(listener.tcp->download_bandwidth, listener, nullptr, path + ".tcp.download_bandwidth");
    }
    if (!listener.http) return;
    const std::string http_path = path + ".http";
    check_global(*listener.http, listener, http_path);
    check_level(*listener.http, listener, nullptr, http_path);
    for (size_t i = 0; i < listener.http->routes.size(); ++i) {
      const HttpRoute& route = listener.http->routes[i];
      check_level(route, listener, &route, item_path(http_path + ".routes", i));
      check_number(listener.http->response_bandwidth, route.response_bandwidth,
                   item_path(http_path + ".routes", i) + ".response_bandwidth");
      check_number(listener.http->request_bandwidth, route.request_bandwidth,
                   item_path(http_path + ".routes", i) + ".request_bandwidth");
    }
  }

  // `level`: the listener's `http`, or a route.
  template <class Level>
  void check_level(const Level& level, const Listener& listener, const HttpRoute* route, const std::string& path) {
    check_requests(level.rate_limits, listener, route, path + ".rate_limits", /*bytes=*/false);
    check_bandwidth(level.response_bandwidth, listener, route, path + ".response_bandwidth");
    check_bandwidth(level.request_bandwidth, listener, route, path + ".request_bandwidth");
  }

  void check_bandwidth(const std::vector<std::string>& names, const Listener& listener, const HttpRoute* route,
                       const std::string& path) {
    check_requests(names, listener, route, path, /*bytes=*/true);
    check_number({}, names, path);
  }

  void check_number(const std::vector<std::string>& above, const std::vector<std::string>& names,
                    const std::string& path) {
    const size_t total = above.size() + names.size();
    if (total <= kMaxBandwidthLimits || names.empty()) return;
    report_.error(path, absl::StrCat("expected at most ", kMaxBandwidthLimits,
                                     " limits with those of the listener, got ", total));
  }

  void check_counts_events(const RateLimit& limit, const std::string& place) {
    if (!limit.rate.is_bytes()) return;
    report_.error(place, absl::StrCat(in_quotes(limit.name),
                                      " has a rate in bytes: name it in `response_bandwidth` or `request_bandwidth` of "
                                      "`http`, or in `upload_bandwidth` or `download_bandwidth` of `tcp`"));
  }

  void check_handshakes(const Listener& listener, const std::string& path) {
    if (!listener.handshake_rate_limits.empty() && !listener.tls) {
      report_.error(path, "needs `tls` at the listener: there are no handshakes to limit");
    }
    each_limit(listener.handshake_rate_limits, path, [&](const RateLimit& limit, const std::string& place) {
      check_counts_events(limit, place);
      check_no_delay(limit, place);
      RateKey rest = limit.effective_key();
      rest.source = rest.sni = false;
      if (rest == RateKey()) return;
      report_.error(place, absl::StrCat(in_quotes(limit.name),
                                        " counts by more than the source and the server name, which is all that is "
                                        "known of a handshake: give it `key: { source: true }`"));
    });
  }

  void check_no_delay(const RateLimit& limit, const std::string& place) {
    if (limit.delay.count() == 0) return;
    report_.error(place, absl::StrCat(in_quotes(limit.name),
                                      " has a `delay`, and connections do not wait: name a limit without one"));
  }

  void check_requests(const std::vector<std::string>& names, const Listener& listener, const HttpRoute* route,
                      const std::string& path, bool bytes) {
    each_limit(names, path, [&](const RateLimit& limit, const std::string& place) {
      if (!bytes) check_counts_events(limit, place);
      if (bytes && !limit.rate.is_bytes()) {
        report_.error(place, absl::StrCat(in_quotes(limit.name), " counts no bytes: give it a rate such as 2MiB/s"));
      }
      const RateKey key = limit.effective_key();
      if (listener.tcp && (key.host || !key.header.text().empty() || !key.cookie.empty())) {
        report_.error(place, absl::StrCat(in_quotes(limit.name),
                                          " counts by `host`, `header` or `cookie`, which connections do not have: "
                                          "give it a key of `source`, `route`, `sni` and `peer`"));
      }
      if (key.sni && !listener.tls) {
        report_.error(place, absl::StrCat(in_quotes(limit.name), " counts by `sni`, which needs `tls` here"));
      }
      if (key.peer && !proves(listener)) {
        report_.error(place, absl::StrCat(in_quotes(limit.name),
                                          " counts by `peer`, which needs `alts`, or `tls` with `client_certificate`"));
      }
      if (!key.jwt_claim.empty() && !has_claim(route, key.jwt_claim)) {
        report_.error(place, absl::StrCat(in_quotes(limit.name), " counts by `jwt_claim`: name it in routes whose ",
                                          "`auth.jwt.claims` lists ", in_quotes(key.jwt_claim)));
      }
    });
  }

  void check_global(const Http& http, const Listener& listener, const std::string& path) {
    const auto& global = http.global_rate_limits;
    bool described = false;
    if (global) {
      const bool printable = std::all_of(global->domain.begin(), global->domain.end(), absl::ascii_isprint);
      if (global->domain.empty() || !printable || global->domain.find_first_of("\"\\") != std::string::npos) {
        report_.error(path + ".global_rate_limits.domain",
                      "expected printable ASCII without quotes and backslashes, such as edge");
      }
      described = !global->descriptors.empty();
      check_descriptors(global->descriptors, listener, nullptr, path + ".global_rate_limits.descriptors");
    }
    for (size_t i = 0; i < http.routes.size(); ++i) {
      const HttpRoute& route = http.routes[i];
      if (route.rate_limit_descriptors.empty()) continue;
      const std::string place = item_path(path + ".routes", i) + ".rate_limit_descriptors";
      if (!global) report_.error(place, "needs `global_rate_limits` in the listener's `http`, with the service");
      described = true;
      check_descriptors(route.rate_limit_descriptors, listener, &route, place);
    }
    if (global && !described) {
      report_.error(path + ".global_rate_limits",
                    "expected `descriptors: [ { entries: [ { source: true } ] } ]`, or `rate_limit_descriptors` in a "
                    "route: requests without a descriptor are not counted");
    }
  }

  void check_descriptors(const std::vector<RateDescriptor>& descriptors, const Listener& listener,
                         const HttpRoute* route, const std::string& path) {
    for (size_t i = 0; i < descriptors.size(); ++i) {
      for (size_t j = 0; j < descriptors[i].entries.size(); ++j) {
        check_entry(descriptors[i].entries[j], listener, route, item_path(item_path(path, i) + ".entries", j));
      }
    }
  }

  void check_entry(const RateEntry& entry, const Listener& listener, const HttpRoute* route, const std::string& path) {
    const int members = int{entry.source} + int{entry.route} + int{entry.host} + int{entry.sni} + int{entry.peer} +
                        int{!entry.header.text().empty()} + int{!entry.cookie.empty()} + int{!entry.jwt_claim.empty()} +
                        int{!entry.value.empty()};
    if (members != 1) {
      report_.error(path,
                    "expected exactly one of `source`, `route`, `host`, `sni`, `peer`, `header`, `cookie`, "
                    "`jwt_claim` and `value`");
    }
    check_cookie_name(entry.cookie, path + ".cookie", report_);
    if (entry.sni && !listener.tls) report_.error(path + ".sni", "needs `tls` at the listener");
    if (entry.peer && !proves(listener)) {
      report_.error(path + ".peer", "needs `alts`, or `tls` with `client_certificate`");
    }
    if (!entry.jwt_claim.empty() && !has_claim(route, entry.jwt_claim)) {
      report_.error(path + ".jwt_claim",
                    absl::StrCat("use it in `rate_limit_descriptors` of routes whose `auth.jwt.claims` lists ",
                                 in_quotes(entry.jwt_claim)));
    }
  }

  static bool proves(const Listener& listener) {
    return listener.alts || (listener.tls && listener.tls->client_certificate != ClientCertificate::kOff);
  }

  static bool has_claim(const HttpRoute* route, std::string_view claim) {
    if (!route || !route->auth || !route->auth->jwt) return false;
    const std::vector<ClaimHeader>& claims = route->auth->jwt->claims;
    return std::any_of(claims.begin(), claims.end(), [&](const ClaimHeader& each) { return each.claim == claim; });
  }

  // Calls `check(limit, path)` for each of these names.
  template <class Check>
  void each_limit(const std::vector<std::string>& names, const std::string& list, const Check& check) {
    for (size_t i = 0; i < names.size(); ++i) {
      const std::string path = item_path(list, i);
      const auto found = std::find(names_.begin(), names_.end(), names[i]);
      if (found == names_.end()) {
        report_unknown(names[i], path);
        continue;
      }
      if (std::find(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(i), names[i]) !=
          names.begin() + static_cast<std::ptrdiff_t>(i)) {
        report_.error(path, absl::StrCat(in_quotes(names[i]), " is listed twice"));
      }
      const auto index = static_cast<size_t>(found - names_.begin());
      used_[index] = true;
      check(config_.rate_limits[index], path);
    }
  }

  void report_unknown(std::string_view name, const std::string& path) {
    if (!names_known_) return;
    const std::string guess = report_.is_full() ? "" : did_you_mean(name, names_);
    report_.error(path, absl::StrCat("there is no rate limit ", in_quotes(name),
                                     guess.empty() ? "; add it under `rate_limits`" : guess));
  }

  const Config& config_;
  Report& report_;
  std::vector<std::string_view> names_;
  bool names_known_ = true;
  std::vector<bool> used_;  // By rate limit.
};

}  // namespace

void check_rate_limits(const Config& config, Report& report) { RateLimitChecker(config, report).check(); }

}  // namespace sluice::config
