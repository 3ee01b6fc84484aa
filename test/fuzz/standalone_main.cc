// Runs a fuzzer's entry point without libFuzzer, so that every build runs it, whatever the compiler.
//
//   <name>_fuzz FILE...   with these files
//   <name>_fuzz           with the corpus folder and with random inputs, which are the same each time

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <utility>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

constexpr int kRandomInputs = 2000;
constexpr size_t kMaxRandomBytes = 4096;

using Bytes = std::vector<uint8_t>;

// A copy of exactly the input's size, so that a sanitizer detects a read past its end.
void run(const Bytes& input) {
  const Bytes exact(input.begin(), input.end());
  LLVMFuzzerTestOneInput(exact.data(), exact.size());
}

bool read_file(const std::filesystem::path& path, Bytes* out) {
  std::ifstream file(path, std::ios::binary);
  out->assign(std::istreambuf_iterator<char>(file), {});
  return file.is_open() && !file.bad();
}

// Sorted, as the random inputs below depend on the order.
std::vector<std::filesystem::path> corpus_files() {
  std::vector<std::filesystem::path> files;
  if (std::filesystem::is_directory(SLUICE_FUZZ_CORPUS)) {
    for (const auto& entry : std::filesystem::directory_iterator(SLUICE_FUZZ_CORPUS)) {
      if (entry.is_regular_file()) {
        files.push_back(entry.path());
      }
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

// Half of the random inputs are a corpus entry with some changed bytes: those pass the first check of a parser.
Bytes random_input(const std::vector<Bytes>& corpus, std::mt19937& random) {
  const auto below = [&random](size_t bound) { return random() % bound; };
  if (!corpus.empty() && below(2) == 0) {
    Bytes input = corpus[below(corpus.size())];
    for (size_t changes = 1 + below(4); changes > 0 && !input.empty(); --changes) {
      input[below(input.size())] = static_cast<uint8_t>(random());
    }
    input.resize(below(8) == 0 ? below(input.size() + 1) : input.size());
    return input;
  }
  // Mostly short: a size below a random bound.
  Bytes input(below(1 + below(kMaxRandomBytes)));
  for (uint8_t& byte : input) {
    byte = static_cast<uint8_t>(random());
  }
  return input;
}

}  // namespace

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    Bytes input;
    if (!read_file(argv[i], &input)) {
      std::fprintf(stderr, "%s: cannot be read\n", argv[i]);
      return 1;
    }
    run(input);
  }
  if (argc > 1) {
    return 0;
  }

  std::vector<Bytes> corpus;
  for (const std::filesystem::path& path : corpus_files()) {
    Bytes input;
    if (!read_file(path, &input)) {
      std::fprintf(stderr, "%s: cannot be read\n", path.c_str());
      return 1;
    }
    run(input);
    corpus.push_back(std::move(input));
  }
  std::mt19937 random(20240229);  // Any fixed number.
  for (int i = 0; i < kRandomInputs; ++i) {
    run(random_input(corpus, random));
  }
  std::printf("%zu corpus files and %d random inputs\n", corpus.size(), kRandomInputs);
  return 0;
}
