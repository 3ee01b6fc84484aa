#include "proxy/config/model/resolve.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "proxy/common/suggestions.h"

namespace sluice::config {
namespace {

constexpr size_t kMaxNameBytes = 253;  // RFC 1035 section 2.3.4, without the root's length byte and the first label's.
constexpr size_t kMaxLabelBytes = 63;

// The mistake in a name; empty if it is valid. Names follow RFC 1123 section 2.1, plus underscores, which occur in
// service names and in names given by container runtimes.
std::string fault_of(std::string_view name) {
  const std::string_view labels = absl::StripSuffix(name, ".");  // fully qualified: not completed by a search domain
  if (labels.size() > kMaxNameBytes) return absl::StrCat("a name has up to ", kMaxNameBytes, " bytes");
  for (const std::string_view label : absl::StrSplit(labels, '.')) {
    const auto fits = [](unsigned char c) { return absl::ascii_isalnum(c) || c == '-' || c == '_'; };
    if (label.empty()) return "a label of the name is empty";
    if (label.size() > kMaxLabelBytes) return absl::StrCat("a label of a name has up to ", kMaxLabelBytes, " bytes");
    if (label.front() == '-' || label.back() == '-') return "a label of a name neither begins nor ends with a hyphen";
    if (!std::all_of(label.begin(), label.end(), fits)) {
      return absl::StrCat("a name has letters, digits, hyphens and dots, which ", in_quotes(label), " is not");
    }
  }
  return "";
}

// Whether the user probably intended a name rather than an address.
bool is_meant_as_name(std::string_view host) {
  return !host.empty() && host != "*" && host.find_first_of(":/[]@") == std::string_view::npos &&
         host.find_first_not_of("0123456789.") != std::string_view::npos;
}

}  // namespace

absl::StatusOr<EndpointAddress> EndpointAddress::parse(std::string_view text) {
  const absl::StatusOr<Address> address = Address::parse(text);
  if (address.ok()) return EndpointAddress(*address);
  const size_t colon = text.rfind(':');
  const std::string_view host = text.substr(0, colon);
  if (colon == std::string_view::npos || host == "unix" || !is_meant_as_name(host)) return address.status();
  EndpointAddress name;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data() + colon + 1, end, name.port_);
  if (error != std::errc{} || rest != end) return address.status();
  if (const std::string fault = fault_of(host); !fault.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "expected an address or a name with a port such as app.internal:8080, got ", in_quotes(text), "; ", fault));
  }
  name.host_ = absl::AsciiStrToLower(host);
  return name;
}

std::string EndpointAddress::text() const { return is_name() ? absl::StrCat(host_, ":", port_) : address_.text(); }

absl::StatusOr<ServiceName> ServiceName::parse(std::string_view text) {
  const auto refuse = [&](std::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat(
        "expected the name of SRV records such as _http._tcp.example.com, got ", in_quotes(text), "; ", why));
  };
  if (absl::StrContains(text, ':')) return refuse("ports are in the records");
  if (const std::string fault = fault_of(text); !fault.empty()) return refuse(fault);
  ServiceName name;
  name.name_ = absl::AsciiStrToLower(text);
  return name;
}

}  // namespace sluice::config
