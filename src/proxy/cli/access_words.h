#pragma once

#include <string>
#include <utility>
#include <vector>

#include "proxy/config/model/config.h"
#include "proxy/http/message/client_ip.h"
#include "proxy/http/message/head.h"

namespace sluice {

/// The explanation for one request of what may keep it from its route: access control, CORS, and maintenance.
struct AccessWords {
  std::vector<std::pair<std::string, std::string>> lines;  ///< A label and a text each.
  std::string response;                                    ///< The response of the proxy itself; empty: access granted.
};

/// Explains what the phases of PhaseStep::kAdmit decide. A password or token in the request is assumed to be valid, and
/// its files are not read. `route` is null if no route matches.
AccessWords access_words(const config::Http& http, const config::HttpRoute* route, const ClientIp& client,
                         const Head& request);

}  // namespace sluice
