#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "proxy/config/model/config.h"

namespace sluice {

/// A hypothetical request to explain.
struct ExplainedRequest {
  std::string method = "GET";
  std::string url;  ///< http://host[:port]/path?query, or https.
  std::vector<std::pair<std::string, std::string>> fields;
  std::string from = "127.0.0.1";  ///< The client's IP address.
  std::vector<std::string> peer;   ///< The client's authenticated identities.
  std::string listener;            ///< Name of the listener; empty: selected by the URL's scheme and port.
};

/// Explains how a configuration handles a request: the listener, the certificate, each route up to the one that is
/// taken, with the condition that the request does not meet, and the response or the request to the upstream. Returns
/// lines of text for people. Makes no connections. Reads no files but certificates; one that cannot be read is reported
/// in the text. Returns InvalidArgument if the request is invalid, or no listener matches it.
absl::StatusOr<std::string> explain(const config::Config& config, const ExplainedRequest& request);

}  // namespace sluice
