#include "proxy/cli/running_config.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "proxy/cli/admin_client.h"
#include "proxy/common/json_writer.h"
#include "proxy/config/load/loader.h"
#include "proxy/config/load/print_json.h"

namespace sluice {

absl::StatusOr<config::Config> running_config(const Arguments& arguments) {
  const absl::StatusOr<AdminClient> client = AdminClient::against(arguments);
  if (!client.ok()) return client.status();
  const absl::StatusOr<AdminClient::Response> response = client->request("/config?only=config");
  if (!response.ok()) return response.status();
  if (!response->ok()) {
    return absl::UnavailableError(
        absl::StrCat("/config: ", response->status, " ", response->reason, "\n", response->body));
  }
  return config::load_text(response->body, "the running configuration");  // YAML includes JSON.
}

absl::StatusOr<config::Config> without_secrets(const config::Config& config) {
  JsonWriter json;
  config::write_config(config, json);
  return config::load_text(std::move(json).text(), "the configuration without secrets");
}

}  // namespace sluice
