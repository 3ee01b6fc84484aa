#include "proxy/profile/folded_stacks.h"

#include <array>
#include <cmath>

#include "absl/strings/str_cat.h"

namespace sluice {

void FoldedStacks::add(std::string_view thread, std::span<const uintptr_t> frames, uint64_t weight) {
  auto found = threads_.find(thread);
  if (found == threads_.end()) found = threads_.try_emplace(std::string(thread)).first;
  auto& stacks = found->second;
  std::vector<uintptr_t> key(frames.begin(), frames.end());
  if (const auto known = stacks.find(key); known != stacks.end()) {
    known->second += weight;
  } else if (stacks_ == kMaxStacks) {
    ++lost_;
    return;
  } else {
    stacks.emplace(std::move(key), weight);
    ++stacks_;
  }
  ++samples_;
}

void FoldedStacks::add_all(std::string_view thread, SampleRing& ring) {
  std::array<uintptr_t, SampleRing::kMaxFrames> frames;
  uint64_t weight = 0;
  while (const size_t count = ring.take(frames, weight)) add(thread, std::span(frames).first(count), weight);
}

std::string FoldedStacks::text(double scale, absl::FunctionRef<std::string_view(uintptr_t address)> name_of) const {
  // Different addresses of the same functions become one line.
  std::map<std::string, uint64_t> lines;
  for (const auto& [thread, stacks] : threads_) {
    for (const auto& [frames, weight] : stacks) {
      std::string line = thread;
      for (size_t i = frames.size(); i-- > 0;) absl::StrAppend(&line, ";", name_of(frames[i]));
      lines[line] += weight;
    }
  }
  std::string text;
  for (const auto& [line, weight] : lines)
    absl::StrAppend(&text, line, " ", std::llround(static_cast<double>(weight) * scale), "\n");
  if (lost_ > 0) absl::StrAppend(&text, "[lost samples] ", lost_, "\n");
  return text;
}

}  // namespace sluice
