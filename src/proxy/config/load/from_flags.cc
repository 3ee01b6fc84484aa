#include "proxy/config/load/from_flags.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "proxy/config/load/diagnostics.h"
#include "proxy/config/load/validate.h"

namespace sluice::config {
namespace {

template <class T>
absl::Status parse_into(T& address, std::string_view flag, std::string_view text) {
  absl::StatusOr<T> parsed = T::parse(text);
  if (!parsed.ok()) return absl::InvalidArgumentError(absl::StrCat(flag, ": ", parsed.status().message()));
  address = *std::move(parsed);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Config> from_flags(const RunFlags& flags) {
  if (flags.listen.empty()) return absl::InvalidArgumentError("--listen is missing, as in --listen 127.0.0.1:8080");
  if (flags.to.empty()) return absl::InvalidArgumentError("--to is missing, as in --to 127.0.0.1:9000");
  Config config;
  Listener& listener = config.listeners.emplace_back();
  listener.name = "main";
  (flags.tcp ? listener.tcp.emplace().forward : listener.http.emplace().forward) = "main";
  if (absl::Status status = parse_into(listener.addresses.emplace_back(), "--listen", flags.listen); !status.ok())
    return status;
  Upstream& upstream = config.upstreams.emplace_back();
  upstream.name = "main";
  for (const std::string& to : flags.to) {
    Endpoint& endpoint = upstream.endpoints.emplace_back();
    if (absl::Status status = parse_into(endpoint.address, "--to", to); !status.ok()) return status;
  }
  Report report("command line");
  validate(config, report);
  if (!report.ok()) return report.status();
  return config;
}

}  // namespace sluice::config
