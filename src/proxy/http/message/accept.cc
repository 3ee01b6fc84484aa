#include "proxy/http/message/accept.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string_view>

#include "proxy/common/token.h"

namespace sluice {

namespace {

struct KnownRange {
  std::string_view name;
  ErrorForm form;
  uint16_t precision;
};
constexpr KnownRange kRanges[] = {
    {"text/plain", ErrorForm::kPlain, 2},
    {"application/json", ErrorForm::kJson, 2},
    {"application/problem+json", ErrorForm::kProblem, 2},
    {"text/*", ErrorForm::kPlain, 1},
    {"application/*", ErrorForm::kJson, 1},
    {"*/*", ErrorForm::kPlain, 0},
};

// In thousandths (RFC 9110 section 12.4.2).
std::optional<uint16_t> parse_weight(std::string_view text) {
  if (text.empty() || text.size() > 5 || (text[0] != '0' && text[0] != '1')) return std::nullopt;
  if (text.size() > 1 && text[1] != '.') return std::nullopt;
  auto weight = static_cast<uint16_t>((text[0] - '0') * 1000);
  for (uint16_t i = 2, unit = 100; i < text.size(); ++i, unit /= 10) {
    if (!http1::is_digit(text[i])) return std::nullopt;
    weight = static_cast<uint16_t>(weight + (text[i] - '0') * unit);
  }
  return weight <= 1000 ? std::optional(weight) : std::nullopt;
}

// Removes the text before the next `separator`, and the separator. Returns the trimmed text.
std::string_view take_until(char separator, std::string_view& text) {
  const std::string_view part = text.substr(0, text.find(separator));
  text.remove_prefix(std::min(part.size() + 1, text.size()));
  return http1::trimmed(part);
}

// The weight in a range's parameters; 1000 if there is none.
std::optional<uint16_t> weight_of(std::string_view parameters) {
  while (!parameters.empty()) {
    std::string_view parameter = take_until(';', parameters);
    if (http1::same(take_until('=', parameter), "q")) return parse_weight(parameter);
  }
  return 1000;
}

struct Choice {
  ErrorForm form = ErrorForm::kPlain;
  uint16_t weight = 0;
  uint16_t precision = 0;

  // Among equals the first one stays.
  void consider(std::string_view element) {
    const std::string_view name = take_until(';', element);
    const auto* const range = std::find_if(std::begin(kRanges), std::end(kRanges),
                                           [&](const KnownRange& known) { return http1::same(name, known.name); });
    if (range == std::end(kRanges)) return;
    const uint16_t its = weight_of(element).value_or(0);
    if (its < weight || (its == weight && range->precision <= precision)) return;
    *this = {range->form, its, range->precision};
  }
};

}  // namespace

ErrorForm preferred_form(const Fields& request) {
  constexpr std::string_view kName = "accept";
  Choice best;
  for (size_t i = request.find(kName); i != Fields::npos; i = request.find(kName, i + 1)) {
    for (std::string_view list = request[i].value; !list.empty();) best.consider(take_until(',', list));
  }
  return best.weight > 0 ? best.form : ErrorForm::kPlain;
}

}  // namespace sluice
