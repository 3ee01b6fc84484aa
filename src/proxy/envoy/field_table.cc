#include "proxy/envoy/field_table.h"

#include <algorithm>
#include <unordered_map>

#include "absl/strings/str_cat.h"

namespace sluice::envoy {
namespace {

struct MessageGroup {
  std::string_view title;
  std::span<const MessageRule> messages;
};

std::span<const MessageGroup> message_groups() {
  static const MessageGroup groups[] = {{"Listeners", listener_messages()},
                                        {"Filters", filter_messages()},
                                        {"Routes", route_messages()},
                                        {"Clusters and endpoints", cluster_messages()},
                                        {"Shared by several", common_messages()}};
  return groups;
}

std::string_view support_word(Support support) {
  switch (support) {
    case Support::kYes:
      return "yes";
    case Support::kIgnored:
      return "ignored";
    case Support::kRefused:
      break;
  }
  return "refused";
}

}  // namespace

const FieldRule* MessageRule::find(std::string_view field) const {
  const auto found =
      std::find_if(fields.begin(), fields.end(), [&](const FieldRule& each) { return each.name == field; });
  return found == fields.end() ? nullptr : &*found;
}

const MessageRule* find_message_rule(std::string_view name) {
  static const std::unordered_map<std::string_view, const MessageRule*> rules = [] {
    std::unordered_map<std::string_view, const MessageRule*> all;
    for (const MessageGroup& group : message_groups()) {
      for (const MessageRule& message : group.messages) all.emplace(message.name, &message);
    }
    return all;
  }();
  const auto found = rules.find(name);
  return found == rules.end() ? nullptr : found->second;
}

std::string field_reference_markdown() {
  std::string out;
  for (const MessageGroup& group : message_groups()) {
    absl::StrAppend(&out, "\n## ", group.title, "\n");
    for (const MessageRule& message : group.messages) {
      absl::StrAppend(&out, "\n### ", message.name, "\n\n| field | | |\n|---|---|---|\n");
      for (const FieldRule& field : message.fields) {
        absl::StrAppend(&out, "| `", field.name, "` | ", support_word(field.support), " | ", field.note, " |\n");
      }
    }
  }
  return out;
}

}  // namespace sluice::envoy
