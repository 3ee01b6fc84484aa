// Inputs of fuzzers that choose where their bytes are cut.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace sluice::test {

struct CutInput {
  std::vector<size_t> cuts;  ///< Ascending; for heap_buffer_of().
  std::string_view bytes;    ///< Part of the fuzzer's input.
};

/// Reads one byte for the number of cuts (modulo 8), two bytes (the low one first) for the position of each, and uses
/// the rest as the bytes that are cut. An input that ends too early has no bytes.
inline CutInput cut_input(const uint8_t* data, size_t size) {
  CutInput input;
  if (size == 0) return input;
  const size_t count = data[0] % 8;
  const size_t header = 1 + 2 * count;
  if (size < header) return input;
  for (size_t at = 1; at < header; at += 2) input.cuts.push_back(data[at] + 256u * data[at + 1]);
  std::sort(input.cuts.begin(), input.cuts.end());
  input.bytes = std::string_view(reinterpret_cast<const char*>(data + header), size - header);
  return input;
}

}  // namespace sluice::test
