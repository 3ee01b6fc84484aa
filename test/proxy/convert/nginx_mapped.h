// Maps configurations of nginx that are in memory.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proxy/config/load/loader.h"
#include "proxy/convert/nginx/mapping.h"

namespace sluice::convert::nginx {

/// The result of a mapping.
struct Mapped {
  std::string text;
  std::vector<std::string> findings;
  size_t refused = 0;
  std::string error;  ///< Of the conversion, or of load_text(); empty if there is none.

  bool has(std::string_view part) const { return text.find(part) != std::string::npos; }
  /// Whether a finding has this part.
  bool says(std::string_view part) const {
    for (const std::string& each : findings) {
      if (each.find(part) != std::string::npos) return true;
    }
    return false;
  }
};

/// `files`: those that nginx.conf includes, by path.
inline Mapped map_text(std::string_view text, std::map<std::string, std::string> files = {}) {
  files["/etc/nginx/nginx.conf"] = text;
  const Disk disk{.read = [&](const std::string& path) -> absl::StatusOr<std::string> {
                    const auto found = files.find(path);
                    if (found == files.end()) return absl::NotFoundError(absl::StrCat(path, ": there is no such file"));
                    return found->second;
                  },
                  .matches =
                      [&](const std::string& pattern) {
                        std::vector<std::string> paths;
                        const std::string folder = pattern.substr(0, pattern.rfind('/') + 1);
                        for (const auto& [path, content] : files) {
                          if (path.starts_with(folder) && path != "/etc/nginx/nginx.conf") paths.push_back(path);
                        }
                        return paths;
                      }};
  const Conversion made = map_file("/etc/nginx/nginx.conf", disk);
  Mapped mapped{.text = made.text, .refused = made.findings.count(Severity::kRefused), .error = made.error};
  for (const Finding& each : made.findings.list()) mapped.findings.push_back(each.text());
  if (!mapped.error.empty()) return mapped;
  const absl::StatusOr<config::Config> loaded = config::load_text(made.text, "result");
  if (!loaded.ok()) mapped.error = loaded.status().message();
  return mapped;
}

/// A server with these directives.
inline std::string with_server(std::string_view directives, std::string_view http = "") {
  return absl::StrCat("http { upstream app { server 10.0.0.1:80; } ", http, " server { listen 80; ", directives,
                      " } }\n");
}
/// One location that forwards.
inline std::string with_location(std::string_view directives, std::string_view http = "") {
  return with_server(absl::StrCat("location / { proxy_pass http://app; ", directives, " }"), http);
}

}  // namespace sluice::convert::nginx
