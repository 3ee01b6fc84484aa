#include "proxy/config/load/validate_log.h"

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

void check_access_log(const AccessLog& log, LogSubject subject, const std::string& path, Report& report) {
  if (log.file == "off" || log.file == "none") {
    report.error(path, absl::StrCat("expected a file, stdout, stderr or syslog, got ", in_quotes(log.file),
                                    "; for no log leave the key out"));
  } else if (log.file.empty()) {
    report.error(path, "expected a file, stdout, stderr or syslog");
  } else if (names_syslog(log.file)) {
    const absl::Status syslog = LogTarget::parse(log.file).status();
    if (!syslog.ok()) report.error(path + ".file", syslog.message());
  }
  for (const TextTemplate::Piece& piece : log.format.line().pieces()) {
    check_variable(piece.variable, subject, path + ".format", report);
  }
  for (const LogCondition::Node& node : log.when.nodes()) {
    check_variable(node.field.variable, subject, path + ".when", report);
  }
}

}  // namespace sluice::config
