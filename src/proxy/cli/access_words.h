#pragma once

#include <string>
#include <utility>
#include <vector>

#include "proxy/config/model/config.h"
#include "proxy/http/message/client_ip.h"
#include "proxy/http/message/head.h"

namespace sluice {

/// What is said of who may ask.
struct AccessWords {
  std::vector<std::pair<std::string, std::string>> lines;  ///< A word each, and what it says.
  std::string answer;                                      ///< Of the proxy itself; empty: the route goes on.
};

/// As Exchange::admit does it; a password or a token that is there is taken for good, and its files are not read.
/// `route` is null where there is none.
AccessWords access_words(const config::Http& http, const config::HttpRoute* route, const ClientIp& client,
                         const Head& request);

}  // namespace sluice
