#include "proxy/config/model/log.h"

#include <sys/un.h>

#include <algorithm>
#include <iterator>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "proxy/common/suggestions.h"
#include "proxy/config/model/address.h"

namespace sluice::config {

namespace {

constexpr std::string_view kLogTargets =
    "expected stderr, syslog, syslog:PATH, syslog:ADDRESS:PORT or the path of a file, got ";
constexpr std::string_view kSyslog = "syslog", kStderr = "stderr";

// Words that other programs have here. As file names they would be surprises.
constexpr std::string_view kOtherWords[] = {"stdout", "console"};

}  // namespace

bool names_syslog(std::string_view text) { return text == kSyslog || absl::StartsWith(text, "syslog:"); }

absl::StatusOr<LogTarget> LogTarget::parse(std::string_view text) {
  LogTarget target;
  if (text == kStderr) return target;
  if (text == "journal" || text == "journald") {
    return absl::InvalidArgumentError(
        absl::StrCat(kLogTargets, in_quotes(text), "; a service's stderr goes to the journal, with its levels"));
  }
  if (text == "off" || text == "none") {
    return absl::InvalidArgumentError(absl::StrCat(kLogTargets, in_quotes(text), "; `level: error` is the least"));
  }
  if (text.empty() || std::find(std::begin(kOtherWords), std::end(kOtherWords), text) != std::end(kOtherWords)) {
    return absl::InvalidArgumentError(absl::StrCat(kLogTargets, in_quotes(text)));
  }
  if (!names_syslog(text)) {
    target.destination_ = {LogDestination::Kind::kFile, std::string(text)};
    return target;
  }
  const std::string_view path = text != kSyslog ? text.substr(kSyslog.size() + 1) : kSyslogPath;
  if (!absl::StartsWith(path, "/")) {
    const absl::StatusOr<Address> address = Address::parse(path);
    if (!address.ok() || address->kind() == Address::Kind::kUnix || address->port() == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("expected the absolute path of a socket or an address with a port behind `syslog:`, as in "
                       "syslog:/dev/log or syslog:10.0.0.1:514, got ",
                       in_quotes(text)));
    }
    target.destination_ = {LogDestination::Kind::kSyslog, address->text(),
                           PeerAddress::copy_of(address->data(), address->length())};
    return target;
  }
  constexpr size_t kMost = sizeof(sockaddr_un::sun_path) - 1;
  if (path.size() > kMost) {
    return absl::InvalidArgumentError(
        absl::StrCat("the path of a socket has at most ", kMost, " bytes, got ", path.size()));
  }
  target.destination_ = {LogDestination::Kind::kSyslog, std::string(path)};
  return target;
}

std::string LogTarget::text() const {
  switch (destination_.kind) {
    case LogDestination::Kind::kStderr:
      return std::string(kStderr);
    case LogDestination::Kind::kFile:
      return destination_.path;
    case LogDestination::Kind::kSyslog:
      break;
  }
  return destination_.path == kSyslogPath ? std::string(kSyslog) : absl::StrCat(kSyslog, ":", destination_.path);
}

}  // namespace sluice::config
