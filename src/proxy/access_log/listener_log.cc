#include "proxy/access_log/listener_log.h"

#include <array>
#include <chrono>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "proxy/access_log/record_values.h"

namespace sluice {

namespace {

using config::LogCondition;
using Operator = LogCondition::Operator;

bool compares(uint64_t left, Operator by, uint64_t right) {
  switch (by) {
    case Operator::kEqual:
      return left == right;
    case Operator::kNotEqual:
      return left != right;
    case Operator::kLess:
      return left < right;
    case Operator::kLessOrEqual:
      return left <= right;
    case Operator::kGreater:
      return left > right;
    case Operator::kGreaterOrEqual:
      return left >= right;
  }
  return false;
}

// Workers must not choose the same lines.
uint64_t random_seed(const void* of) {
  const auto now = static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  return now ^ static_cast<uint64_t>(reinterpret_cast<uintptr_t>(of));
}

}  // namespace

ListenerLog::ListenerLog(AccessLogTarget to, const config::AccessLog& config)
    : to_(std::move(to)), config_(config), random_(random_seed(this)) {}

void ListenerLog::write(const AccessRecord& record) {
  if (!selects(record)) return;
  if (to_.records) return add_record(record);
  const std::span<char> room = to_.writer->begin();
  if (!room.empty()) to_.writer->commit(format_access_line(config_.format, record, room));
}

void ListenerLog::add_record(const AccessRecord& record) {
  static thread_local std::array<char, kMaxLogLineBytes> room;
  const size_t bytes = format_access_line(config_.format, record, room);
  to_.records->add(record, {room.data(), bytes - 1});
}

bool ListenerLog::selects(const AccessRecord& record) {
  if (!config_.sample.is_all() && random_.below(config::Share::kOne) >= config_.sample.millionths()) return false;
  return config_.when.empty() || holds(static_cast<uint32_t>(config_.when.nodes().size() - 1), record);
}

// How deep it calls itself is bounded by LogCondition::kMaxBytes.
bool ListenerLog::holds(uint32_t index, const AccessRecord& record) {
  using Kind = LogCondition::Node::Kind;
  const LogCondition::Node& node = config_.when.nodes()[index];
  switch (node.kind) {
    case Kind::kAnd:
      return holds(node.left, record) && holds(node.right, record);
    case Kind::kOr:
      return holds(node.left, record) || holds(node.right, record);
    case Kind::kNot:
      return !holds(node.left, record);
    case Kind::kNumber: {
      const std::optional<uint64_t> number = number_of_record(node.field.variable, record);
      return number && compares(*number, node.comparison, node.number);
    }
    case Kind::kText: {
      std::array<char, ClientIp::kTextBytes> room;
      const std::string_view text = text_of_record(node.field, record, room);
      return (text == node.text) == (node.comparison == Operator::kEqual);
    }
    case Kind::kRandom:
      return compares(random_.below(LogCondition::kRandomOne), node.comparison, node.number);
  }
  return false;
}

}  // namespace sluice
