#include "proxy/config/load/validate_error_pages.h"

#include <map>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "proxy/common/suggestions.h"
#include "proxy/config/load/validate_route.h"
#include "proxy/config/model/name.h"

namespace sluice::config {

namespace {

std::string item(const std::string& list, size_t index) { return absl::StrCat(list, "[", index, "]"); }

void check_access_log(const std::string& file, const std::string& path, Report& report) {
  if (file == "off" || file == "none") {
    report.error(path, absl::StrCat("expected a file, stdout or stderr, got ", in_quotes(file),
                                    "; for no log leave the key out"));
  } else if (file.empty()) {
    report.error(path, "expected a file, stdout or stderr");
  }
}

void check_request_id(const Http& http, const std::string& path, Report& report) {
  check_field_name(http.request_id->header, path + ".header", report);
  if (http.request_id->accept == TrustFrom::kTrusted && http.trusted_hops == 0 && http.trusted_proxies.empty()) {
    report.error(path + ".accept",
                 "`trusted` needs `trusted_proxies` or `trusted_hops`: otherwise no proxy is trusted");
  }
}

void check_error_body(const ErrorBody& error, const std::string& path, Report& report) {
  if (error.body.empty() == error.file.empty()) {
    report.error(path,
                 error.body.empty() ? "expected `body: TEXT` or `file: PATH`" : "`body` and `file` exclude each other");
  }
  check_content_type(error.content_type, path + ".content_type", report);
}

// Route names must be unique, because the log identifies a route by its name.
void check_route_names(const std::vector<HttpRoute>& routes, const std::string& path, Report& report) {
  std::map<std::string_view, size_t> seen;
  for (size_t i = 0; i < routes.size(); ++i) {
    const std::string& name = routes[i].name;
    if (name.empty()) continue;
    const std::string name_path = item(path, i) + ".name";
    if (!is_name(name)) {
      report.error(name_path, absl::StrCat("expected ", kNameRule, ", got ", in_quotes(name)));
      continue;
    }
    const auto [first, inserted] = seen.emplace(name, i);
    if (inserted) continue;
    report.error(name_path, absl::StrCat(in_quotes(name), " is already the name of ", item(path, first->second),
                                         "; names must be unique"));
  }
}

}  // namespace

void check_error_pages(const Http& http, const std::string& path, Report& report) {
  if (http.access_log) check_access_log(http.access_log->file, path + ".access_log", report);
  if (http.request_id) check_request_id(http, path + ".request_id", report);
  for (size_t i = 0; i < http.errors.size(); ++i) check_error_body(http.errors[i], item(path + ".errors", i), report);
  check_route_names(http.routes, path + ".routes", report);
}

}  // namespace sluice::config
