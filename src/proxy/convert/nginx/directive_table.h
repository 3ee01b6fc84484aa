// What becomes of each directive of nginx.
#pragma once

#include <cstdint>
#include <string_view>

#include "proxy/convert/common/finding.h"
#include "proxy/convert/nginx/directive.h"

namespace sluice::convert::nginx {

enum class Fate : uint8_t {
  kMapped,   ///< The mapping looks at it, and says what it cannot take over.
  kIgnored,  ///< Requests are handled the same without it, but for what the message says.
  kRefused,  ///< The result lacks it.
  kContent,  ///< Refused; it is what responds to the requests of its location, which get 503.
  kGuard,    ///< Refused; it may keep requests out, so that what it guards gets 403.
};

struct KnownDirective {
  std::string_view name;
  Fate fate;
  std::string_view message = {};
};

/// Its row; one of fate kGuard if the directive is not known.
const KnownDirective& known_directive(std::string_view name);

/// Reports all directives below `block` that are not mapped.
void report_unmapped(const Directive& block, Findings& findings);

/// Reports one directive.
void report(const Directive& directive, Severity severity, std::string_view message, Findings& findings);

}  // namespace sluice::convert::nginx
