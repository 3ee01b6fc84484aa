#include "proxy/envoy/wire_format.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace sluice::envoy {
namespace {

struct WireFormat {
  std::unordered_map<std::string_view, WireMessage> messages;
  std::unordered_map<std::string_view, std::unordered_map<uint64_t, std::string_view>> enums;
};

constexpr std::pair<std::string_view, WireKind> kScalars[] = {
    {"string", WireKind::kString},   {"bytes", WireKind::kBytes}, {"bool", WireKind::kBool},
    {"double", WireKind::kDouble},   {"float", WireKind::kFloat}, {"uint", WireKind::kUint},
    {"int", WireKind::kInt},         {"sint", WireKind::kSint},   {"fixed32", WireKind::kFixed32},
    {"fixed64", WireKind::kFixed64},
};

WireField read_field(uint32_t number, std::string_view name, std::string_view type) {
  WireField field{.number = number, .name = name, .kind = WireKind::kMessage, .type = {}};
  field.is_repeated = absl::ConsumeSuffix(&type, "[]");
  field.is_map = absl::ConsumeSuffix(&type, "{}");
  const auto* const scalar =
      std::find_if(std::begin(kScalars), std::end(kScalars), [&](const auto& each) { return each.first == type; });
  if (scalar != std::end(kScalars)) {
    field.kind = scalar->second;
  } else {
    field.type = type;
  }
  return field;
}

WireFormat read_format() {
  WireFormat format;
  WireMessage* message = nullptr;
  std::unordered_map<uint64_t, std::string_view>* values = nullptr;
  for (std::string_view line : absl::StrSplit(wire_format_text(), '\n')) {
    if (line.empty() || line.front() == '#') continue;
    if (absl::ConsumePrefix(&line, "message ")) {
      message = &format.messages[line];
      values = nullptr;
    } else if (absl::ConsumePrefix(&line, "enum ")) {
      values = &format.enums[line];
    } else {
      const std::vector<std::string_view> words = absl::StrSplit(line, ' ');
      uint32_t number = 0;
      (void)absl::SimpleAtoi(words[0], &number);
      if (values != nullptr) {
        values->emplace(number, words[1]);
      } else {
        message->fields.push_back(read_field(number, words[1], words[2]));
      }
    }
  }
  for (auto& [name, each] : format.messages) {
    for (WireField& field : each.fields) {
      if (format.enums.contains(field.type)) field.kind = WireKind::kEnum;
    }
  }
  return format;
}

const WireFormat& format() {
  static const WireFormat read = read_format();
  return read;
}

}  // namespace

const WireField* WireMessage::find(uint32_t number) const {
  const auto found = std::lower_bound(fields.begin(), fields.end(), number,
                                      [](const WireField& field, uint32_t wanted) { return field.number < wanted; });
  return found != fields.end() && found->number == number ? &*found : nullptr;
}

const WireMessage* find_wire_message(std::string_view name) {
  const auto found = format().messages.find(name);
  return found != format().messages.end() ? &found->second : nullptr;
}

std::string wire_enum_text(std::string_view enumeration, uint64_t value) {
  const auto found = format().enums.find(enumeration);
  if (found != format().enums.end()) {
    if (const auto name = found->second.find(value); name != found->second.end()) return std::string(name->second);
  }
  return absl::StrCat(static_cast<int64_t>(value));
}

}  // namespace sluice::envoy
