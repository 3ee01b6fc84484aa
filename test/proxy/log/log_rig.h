#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "proxy/access_log/access_log.h"
#include "sluice/internal/check.h"

namespace sluice::test {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// A folder for logs, and helpers of their tests.
class LogTest : public testing::Test {
 protected:
  LogTest() {
    folder_ = testing::TempDir() + "sluice_log_XXXXXX";
    SLUICE_CHECK(mkdtemp(folder_.data()) != nullptr);
  }
  ~LogTest() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  static std::unique_ptr<AccessLogs> open(const std::vector<std::string>& targets, size_t workers = 1) {
    auto logs = AccessLogs::open(targets, workers);
    SLUICE_CHECK(logs.ok());
    return std::move(*logs);
  }

  static bool put(AccessLogWriter& writer, std::string_view line) {
    const std::span<char> room = writer.begin();
    if (room.empty()) return false;
    std::memcpy(room.data(), line.data(), line.size());
    writer.commit(line.size());
    return true;
  }
  /// Line `number` of `worker`. Its content depends on both and on the length.
  static std::string line_of(size_t worker, uint64_t number, size_t bytes) {
    std::string line = std::to_string(worker) + " " + std::to_string(number) + " ";
    const char fill = static_cast<char>('a' + (number + worker) % 26);
    if (line.size() + 1 < bytes) line.resize(bytes - 1, fill);
    return line + "\n";
  }

  static std::string contents(const std::string& name) {
    std::ifstream file(name, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  /// Splits `text` into lines of line_of, each of which must be complete. Returns each worker's numbers.
  static std::vector<std::vector<uint64_t>> numbers(const std::string& text, size_t workers) {
    std::vector<std::vector<uint64_t>> out(workers);
    EXPECT_TRUE(text.empty() || text.back() == '\n') << "the last line is not whole";
    std::stringstream stream(text);
    for (std::string line; std::getline(stream, line);) {
      size_t worker = SIZE_MAX;
      uint64_t number = 0;
      std::stringstream(line) >> worker >> number;
      if (worker >= workers || line + "\n" != line_of(worker, number, line.size() + 1)) {
        ADD_FAILURE() << "not a line that was logged: " << line.substr(0, 100);
        return out;
      }
      out[worker].push_back(number);
    }
    return out;
  }
  static std::vector<uint64_t> up_to(uint64_t end) {
    std::vector<uint64_t> out(end);
    for (uint64_t i = 0; i < end; ++i) out[i] = i;
    return out;
  }

  template <typename Condition>
  static bool comes_true(Condition condition, milliseconds patience = seconds(10)) {
    const auto deadline = std::chrono::steady_clock::now() + patience;
    while (!condition()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::sleep_for(milliseconds(2));
    }
    return true;
  }
  /// The data in the pipe or socket `fd`, which does not block.
  static std::string read_some(int fd) {
    std::string out;
    char bytes[65536];
    for (ssize_t count; (count = read(fd, bytes, sizeof bytes)) > 0;) out.append(bytes, static_cast<size_t>(count));
    return out;
  }
  /// Reads until the first of the logs has written that many lines.
  static std::string read_lines(int fd, const AccessLogs& logs, uint64_t written) {
    std::string out;
    EXPECT_TRUE(comes_true([&] {
      out += read_some(fd);
      return logs.written(0) >= written;
    }));
    return out + read_some(fd);
  }

 private:
  std::string folder_;
};

}  // namespace sluice::test
