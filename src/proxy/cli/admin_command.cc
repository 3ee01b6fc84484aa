#include "proxy/cli/admin_command.h"

#include <cstdio>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proxy/cli/admin_client.h"
#include "proxy/cli/failure.h"
#include "proxy/common/suggestions.h"

namespace sluice {

namespace {

// The page with the parameters that options name. Only a profile has such.
absl::StatusOr<std::string> with_parameters(std::string path, const Arguments& arguments) {
  const auto seconds = arguments.value("--seconds");
  const bool allocations = arguments.has("--allocations");
  if (!seconds && !allocations) return path;
  if (path != "/profile") {
    return absl::InvalidArgumentError(absl::StrCat(seconds ? "--seconds" : "--allocations",
                                                   " is for the page /profile, got ", config::in_quotes(path)));
  }
  unsigned number = 0;
  if (seconds && !absl::SimpleAtoi(*seconds, &number)) {
    return absl::InvalidArgumentError(absl::StrCat("--seconds: expected a number, got ", config::in_quotes(*seconds)));
  }
  if (allocations) absl::StrAppend(&path, "?type=allocations");
  if (seconds) absl::StrAppend(&path, allocations ? "&" : "?", "seconds=", number);
  return path;
}

}  // namespace

int admin_command(const Arguments& arguments) {
  if (arguments.words().empty()) return fail_usage("admin", "admin needs the PATH of a page, such as /metrics");
  if (arguments.has("--config") == arguments.has("--address")) {
    return fail_usage("admin", "admin needs either --config FILE or --address ADDRESS");
  }
  std::string path(arguments.words()[0]);
  if (!absl::StartsWith(path, "/")) path = absl::StrCat("/", path);
  absl::StatusOr<std::string> whole = with_parameters(std::move(path), arguments);
  if (!whole.ok()) return fail_usage("admin", whole.status().message());
  path = *std::move(whole);
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
