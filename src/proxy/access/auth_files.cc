#include "proxy/access/auth_files.h"

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "proxy/read_file.h"

namespace sluice {
namespace {

template <class T>
absl::Status read_into(const std::string& path, std::unique_ptr<const T>& into) {
  const absl::StatusOr<std::string> text = read_file(path);
  if (!text.ok()) return text.status();
  absl::StatusOr<T> made = T::parse(*text);
  if (!made.ok()) return absl::InvalidArgumentError(absl::StrCat(path, ": ", made.status().message()));
  into = std::make_unique<const T>(*std::move(made));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ListenerAuthFiles> read_auth_files(const config::Listener& listener) {
  ListenerAuthFiles files;
  if (!listener.http) return files;
  for (const config::HttpRoute& route : listener.http->routes) {
    AuthFiles& of_route = files.emplace_back();
    if (!route.auth) continue;
    const absl::Status read = route.auth->jwt ? read_into(route.auth->jwt->jwks_file, of_route.keys)
                                              : read_into(route.auth->basic->users_file, of_route.users);
    if (read.ok()) continue;
    return absl::Status(read.code(), absl::StrCat("listener \"", listener.name, "\": routes[", files.size() - 1,
                                                  "].auth: ", read.message()));
  }
  return files;
}

}  // namespace sluice
