// Random programs over many buffers, compared with a model (test/support/buffer_program.h).
//
//   SLUICE_PROPERTY_STEPS=10000000 build/release/test/buffer_test --gtest_filter='Property.*'     the long form
//   SLUICE_PROPERTY_SEED=<seed>    ...              one program again; when it fails, it is shrunk and printed as
//   bytes,
//                                                   with the line that has the fuzzer run it

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cinttypes>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "test/buffer/shrink.h"
#include "test/support/buffer_program.h"

// There only in a build with a sanitizer.
// NOLINTNEXTLINE(bugprone-reserved-identifier,readability-identifier-naming)
extern "C" [[gnu::weak]] void __sanitizer_set_death_callback(void (*callback)());

namespace sluice {
namespace {

constexpr size_t kDefaultSteps = 100'000;

using Bytes = std::vector<uint8_t>;

uint64_t number_from_environment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

Bytes random_program(uint64_t seed) {
  std::mt19937_64 random(seed);
  Bytes program(200 + random() % 8000);
  for (uint8_t& byte : program) byte = static_cast<uint8_t>(random());
  return program;
}

// Runs a program in a process of its own, silently: a failed check or a sanitizer ends it. No program takes ten
// seconds.
bool fails_in_a_child(const Bytes& bytes) {
  const pid_t child = fork();
  if (child < 0) return false;
  if (child == 0) {
    std::signal(SIGABRT, SIG_DFL);
    if (&__sanitizer_set_death_callback) __sanitizer_set_death_callback(nullptr);
    const int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (null >= 0) dup2(null, STDERR_FILENO);
    alarm(10);
    _exit(test::BufferProgram(bytes).run().empty() ? 0 : 1);
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return false;
  }
  return status != 0;
}

// The smallest program that fails like this one, and how to run it.
std::string shrunk_and_printed(const Bytes& bytes) {
  const Bytes smallest = test::shrunk(bytes, &fails_in_a_child);
  std::string text = "shrunk to " + std::to_string(smallest.size()) + " bytes: echo ";
  for (const uint8_t byte : smallest) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text + " | xxd -r -p > found && build/asan/test/buffer_fuzz found";
}

// Prints the seed of the running program when a failed check or a sanitizer ends the process.
volatile uint64_t running_seed = 0;

void print_running_seed() {
  if (running_seed) std::fprintf(stderr, "again, and shrunk: SLUICE_PROPERTY_SEED=%" PRIu64 "\n", running_seed);
}

class PrintSeedOnDeath {
 public:
  explicit PrintSeedOnDeath(uint64_t seed) {
    running_seed = seed;
    if (&__sanitizer_set_death_callback) {
      __sanitizer_set_death_callback(&print_running_seed);
    } else {
      for (const int signal : kSignals) std::signal(signal, &print_and_die);
    }
  }
  ~PrintSeedOnDeath() {
    running_seed = 0;
    if (&__sanitizer_set_death_callback) return;
    for (const int signal : kSignals) std::signal(signal, SIG_DFL);
  }
  PrintSeedOnDeath(const PrintSeedOnDeath&) = delete;
  PrintSeedOnDeath& operator=(const PrintSeedOnDeath&) = delete;

 private:
  static constexpr int kSignals[] = {SIGABRT, SIGSEGV, SIGBUS};
  static void print_and_die(int signal) {
    print_running_seed();
    std::signal(signal, SIG_DFL);
    std::raise(signal);
  }
};

TEST(Property, BuffersBehaveLikeStrings) {
  const uint64_t only = number_from_environment("SLUICE_PROPERTY_SEED", 0);
  const uint64_t wanted = number_from_environment("SLUICE_PROPERTY_STEPS", kDefaultSteps);
  size_t steps = 0;
  for (uint64_t seed = only ? only : 1; steps < wanted && (!only || seed == only); ++seed) {
    const PrintSeedOnDeath name_on_death(seed);
    const Bytes bytes = random_program(seed);
    // It may end the process, so it is shrunk first if it is known to fail.
    if (only && fails_in_a_child(bytes)) std::printf("%s\n", shrunk_and_printed(bytes).c_str());
    test::BufferProgram program(bytes);
    const std::string problem = program.run();
    ASSERT_EQ(problem, "") << "again: SLUICE_PROPERTY_SEED=" << seed << '\n' << shrunk_and_printed(bytes);
    steps += program.steps();
  }
  EXPECT_GT(steps, 0u);
  RecordProperty("steps", std::to_string(steps));
}

}  // namespace
}  // namespace sluice
