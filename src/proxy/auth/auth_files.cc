#include "proxy/auth/auth_files.h"

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "proxy/common/read_file.h"

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

absl::StatusOr<AuthFiles> read_auth_files(const config::HttpRoute& route) {
  AuthFiles files;
  if (!route.auth) return files;
  const absl::Status read = route.auth->jwt ? read_into(route.auth->jwt->jwks_file, files.keys)
                                            : read_into(route.auth->basic->users_file, files.users);
  if (!read.ok()) return read;
  return files;
}

absl::StatusOr<ListenerAuthFiles> read_auth_files(const config::Listener& listener) {
  ListenerAuthFiles files;
  if (!listener.http) return files;
  for (const config::HttpRoute& route : listener.http->routes) {
    absl::StatusOr<AuthFiles> of_route = read_auth_files(route);
    if (!of_route.ok()) {
      return absl::Status(of_route.status().code(),
                          absl::StrCat("listener \"", listener.name, "\": routes[", files.size(),
                                       "].auth: ", of_route.status().message()));
    }
    files.push_back(*std::move(of_route));
  }
  return files;
}

}  // namespace sluice
