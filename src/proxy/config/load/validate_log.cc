#include "proxy/config/load/validate_log.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "proxy/common/suggestions.h"
#include "proxy/config/model/log.h"

namespace sluice::config {

namespace {

void check_variable(TextVariable variable, LogSubject subject, const std::string& path, Report& report) {
  if (subject == LogSubject::kConnection && !is_of_connection(variable)) {
    report.error(path, absl::StrCat("a connection of a `tcp` listener has no ", name_of(variable),
                                    "; the variables are ", connection_variables()));
  } else if (subject == LogSubject::kRequest && !is_of_request(variable)) {
    report.error(path, absl::StrCat("a request has no ", name_of(variable),
                                    ", which is for `tcp` listeners; the nearest is upstream_duration"));
  }
}

}  // namespace

void check_otlp(const OtlpRequests& requests, const std::string& path, Report& report) {
  constexpr size_t kMaxServiceName = 255;
  const bool printable = std::all_of(requests.path.begin(), requests.path.end(), absl::ascii_isgraph);
  if (!requests.path.starts_with('/') || !printable) {
    report.error(path + ".path",
                 absl::StrCat("expected a path such as ", requests.usual_path, ", got ", in_quotes(requests.path)));
  }
  if (requests.service_name.empty() || requests.service_name.size() > kMaxServiceName) {
    report.error(path + ".service_name", absl::StrCat("expected a name of 1 to ", kMaxServiceName, " bytes, got ",
                                                      in_quotes(requests.service_name)));
  }
}

void check_access_log(const AccessLog& log, LogSubject subject, const std::string& path, Report& report) {
  if (log.file == "off" || log.file == "none") {
    report.error(path, absl::StrCat("expected a file, stdout, stderr, syslog or otlp:UPSTREAM, got ",
                                    in_quotes(log.file), "; for no log leave the key out"));
  } else if (log.file.empty()) {
    report.error(path, "expected a file, stdout, stderr, syslog or otlp:UPSTREAM");
  } else if (names_syslog(log.file)) {
    const absl::Status syslog = LogTarget::parse(log.file).status();
    if (!syslog.ok()) report.error(path + ".file", syslog.message());
  } else if (names_otlp(log.file) && otlp_upstream(log.file).empty()) {
    report.error(path + ".file",
                 absl::StrCat("expected the name of an upstream, as in otlp:collector, got ", in_quotes(log.file)));
  }
  if (log.otlp && !names_otlp(log.file)) {
    report.error(path + ".otlp", absl::StrCat("is for `file: otlp:UPSTREAM` only, got ", in_quotes(log.file)));
  }
  if (log.otlp) check_otlp({log.otlp->path, log.otlp->service_name, "/v1/logs"}, path + ".otlp", report);
  for (const TextTemplate::Piece& piece : log.format.line().pieces()) {
    check_variable(piece.variable, subject, path + ".format", report);
  }
  for (const LogCondition::Node& node : log.when.nodes()) {
    check_variable(node.field.variable, subject, path + ".when", report);
  }
}

}  // namespace sluice::config
