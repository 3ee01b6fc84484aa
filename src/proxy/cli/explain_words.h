// What `sluice explain` says about each part of the configuration that concerns a request.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proxy/config/model/config.h"
#include "proxy/http/message/client_ip.h"
#include "proxy/http/message/head.h"
#include "proxy/router/request_attributes.h"

namespace sluice {

/// The output of `sluice explain`: lines of a label, which may be empty, and a text.
class Lines {
 public:
  void add(std::string_view word, std::string_view text) {
    constexpr size_t kColumn = 12;
    absl::StrAppend(&text_, word, std::string(kColumn - std::min(kColumn - 1, word.size()), ' '), text, "\n");
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

// ---- Conditions ----

/// Describes the first condition that a request does not meet; empty if it meets all.
std::string why_not(const config::HttpMatch& match, const RequestAttributes& facts);

// ---- Access ----

/// The explanation for one request of what may keep it from its route: access control, CORS, and maintenance.
struct AccessWords {
  std::vector<std::pair<std::string, std::string>> lines;  ///< A label and a text each.
  std::string response;                                    ///< The response of the proxy itself; empty: access granted.
};

/// Explains what the phases of PhaseStep::kAdmit decide. A password or token in the request is assumed to be valid, and
/// its files are not read. `route` is null if no route matches.
AccessWords access_words(const config::Http& http, const config::HttpRoute* route, const ClientIp& client,
                         const Head& request);

// ---- Forwarding ----

/// Adds a description of how `route` forwards a request: upstreams, endpoints, timeouts, limits, buffering and retries.
void add_forward_words(const config::Config& config, const config::Http& http, const config::HttpRoute& route,
                       const RequestAttributes& facts, Lines& lines);

/// The upstreams that the route forwards to: one, or each of a `split`.
std::vector<const config::Upstream*> upstreams_of(const config::Config& config, const config::HttpRoute& route);

/// The largest request body that the route accepts, in bytes; 0: unlimited.
uint64_t max_body_bytes(const config::Http& http, const config::HttpRoute& route);

// ---- Compression ----

/// Describes which responses to a request are compressed, and how; or why none is.
std::string compression_for(const config::Compression& compression, const config::HttpRoute& route,
                            const Head& request);

}  // namespace sluice
