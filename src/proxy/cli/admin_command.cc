#include "proxy/cli/admin_command.h"

#include <cstdio>
#include <string>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proxy/cli/admin_client.h"
#include "proxy/cli/failure.h"
#include "proxy/common/suggestions.h"

namespace sluice {

int admin_command(const Arguments& arguments) {
  if (arguments.words().empty()) return fail_usage("admin", "admin needs the PATH of a page, such as /metrics");
  if (arguments.has("--config") == arguments.has("--address")) {
    return fail_usage("admin", "admin needs either --config FILE or --address ADDRESS");
  }
  std::string path(arguments.words()[0]);
  if (!absl::StartsWith(path, "/")) path = absl::StrCat("/", path);
  const std::string value = absl::StrJoin(arguments.words().begin() + 1, arguments.words().end(), "&");
  const bool deletes = arguments.has("--delete");
  if (deletes && !value.empty()) absl::StrAppend(&path, "?", value);
  for (const char c : path) {
    if (!absl::ascii_isgraph(static_cast<unsigned char>(c))) {
      return fail_usage("admin", absl::StrCat("the path of a page has no blanks, got ", config::in_quotes(path)));
    }
  }
  const absl::StatusOr<AdminClient> client = AdminClient::of(arguments);
  if (!client.ok()) return fail(1, client.status().message());
  const bool changes = arguments.words().size() > 1;
  const absl::StatusOr<AdminClient::Response> response = deletes   ? client->request(path, "DELETE")
                                                         : changes ? client->request(path, "PUT", value)
                                                                   : client->request(path);
  if (!response.ok()) return fail(1, response.status().message());
  std::fwrite(response->body.data(), 1, response->body.size(), stdout);
  if (response->ok()) return 0;
  std::fflush(stdout);
  return fail(1, absl::StrCat(path, ": ", response->status, " ", response->reason));
}

}  // namespace sluice
