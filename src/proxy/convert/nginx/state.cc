#include "proxy/convert/nginx/state.h"

#include "proxy/common/suggestions.h"
#include "proxy/convert/nginx/values.h"

namespace sluice::convert::nginx {

void put_time(config::Node& out, std::string_view key, const Directive* directive, State& state,
              std::string_view zero) {
  if (directive == nullptr) return;
  const auto time = parse_time(directive->arg(0));
  if (!time) {
    return state.refuse(*directive,
                        absl::StrCat("expected a time such as 60s, got ", config::in_quotes(directive->arg(0))));
  }
  put(out, key, time->count() == 0 ? std::string(zero) : duration_text(*time));
}

void put_size(config::Node& out, std::string_view key, const Directive* directive, State& state) {
  if (directive == nullptr) return;
  const auto size = parse_size(directive->arg(0));
  if (!size) {
    return state.refuse(*directive,
                        absl::StrCat("expected a size such as 1m, got ", config::in_quotes(directive->arg(0))));
  }
  put(out, key, size_text(*size));
}

}  // namespace sluice::convert::nginx
