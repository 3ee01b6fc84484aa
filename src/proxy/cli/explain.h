#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "proxy/config/model/config.h"

namespace sluice {

/// A request that nobody has sent.
struct ExplainedRequest {
  std::string method = "GET";
  std::string url;  ///< http://host[:port]/path?query, or https.
  std::vector<std::pair<std::string, std::string>> fields;
  std::string from = "127.0.0.1";  ///< The client's IP address.
  std::vector<std::string> peer;   ///< Who the client has proven to be.
  std::string listener;            ///< Its name; empty: found by the URL's scheme and port.
};

/// What a configuration does with a request, and why: the listener, the certificate, each route up to the one that is
/// taken with the condition that the request does not fit, and what is answered, or sent to which upstream. Lines of
/// text for people. Nothing is connected to; of files only certificates are read, and one that cannot be read is told
/// as such. InvalidArgument where the request is none, or no listener is for it.
absl::StatusOr<std::string> explain(const config::Config& config, const ExplainedRequest& request);

}  // namespace sluice
