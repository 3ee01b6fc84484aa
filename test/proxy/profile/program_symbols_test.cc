#include "proxy/profile/program_symbols.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <string>

#include "proxy/profile/stack_walk.h"

namespace sluice {

// With names for the linker. They must not be inlined, nor be the last call of another one.
[[gnu::noinline]] size_t profile_test_inner(std::array<uintptr_t, 64>& frames) {
  const auto frame = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
  return walk_stack({.pc = reinterpret_cast<uintptr_t>(&profile_test_inner),
                     .frame = frame,
                     .stack = frame,
                     .stack_end = frame + 4096},
                    frames);
}

[[gnu::noinline]] size_t profile_test_outer(std::array<uintptr_t, 64>& frames) {
  const size_t count = profile_test_inner(frames);
  asm volatile("" : : : "memory");
  return count + 0;
}

namespace {

using testing::EndsWith;

TEST(FunctionName, HasNoParameters) {
  EXPECT_EQ(function_name("_ZN6sluice3fooEi"), "sluice::foo");
  EXPECT_EQ(function_name("_ZNK6sluice6Buffer4sizeEv"), "sluice::Buffer::size");  // A const member.
  EXPECT_EQ(function_name("_ZN6sluice3fooEi.constprop.0"), "sluice::foo");
  EXPECT_EQ(function_name("_ZN6sluice3fooEPFvidE.part.0.cold"), "sluice::foo");  // A parameter with parameters.
}

TEST(FunctionName, HasNoResult) {
  EXPECT_EQ(function_name("_ZN6sluice3maxIiEET_S1_S1_"), "sluice::max<int>");  // int sluice::max<int>(int, int)
}

TEST(FunctionName, KeepsOperators) {
  EXPECT_EQ(function_name("_ZNK6sluice3FooclEi"), "sluice::Foo::operator()");
  EXPECT_EQ(function_name("_ZnwmRKSt9nothrow_t"), "operator new");
  EXPECT_EQ(function_name("_ZN6sluicelsERNS_3FooEi"), "sluice::operator<<");
}

TEST(FunctionName, LeavesNoNamespacesThatSayNothing) {
  EXPECT_EQ(function_name("_ZN6sluice12_GLOBAL__N_13fooEv"), "sluice::foo");
  EXPECT_EQ(function_name("_ZN6sluice4v0_19ChunkPool8get_slowEi"), "sluice::ChunkPool::get_slow");
}

TEST(FunctionName, TakesOtherNamesAsTheyAre) {
  EXPECT_EQ(function_name("main"), "main");
  EXPECT_EQ(function_name("aes_gcm_enc.123"), "aes_gcm_enc");
  EXPECT_EQ(function_name("a;b"), "a:b");
  EXPECT_EQ(function_name(std::string(1000, 'x').c_str()).size(), kMaxNameBytes);
}

// Not exported: only the symbol table of the file has it.
[[gnu::noinline]] int static_function(int number) { return number + std::rand(); }

TEST(ProgramSymbols, FindsFunctionsOfTheProgramAndOfLibraries) {
  ProgramSymbols symbols;
  ASSERT_TRUE(symbols.has_own());
  EXPECT_THAT(symbols.name_of(reinterpret_cast<uintptr_t>(&static_function)), EndsWith("static_function"));
  EXPECT_EQ(symbols.name_of(reinterpret_cast<uintptr_t>(&profile_test_outer) + 1), "sluice::profile_test_outer");
  void* const library = reinterpret_cast<void*>(&std::rand);
  EXPECT_THAT(symbols.name_of(reinterpret_cast<uintptr_t>(library)), testing::HasSubstr("rand"));
  EXPECT_EQ(symbols.name_of(16), "[unknown]");
  EXPECT_EQ(symbols.name_of(reinterpret_cast<uintptr_t>(&symbols)), "[unknown]");
}

TEST(WalkStack, FollowsFramePointers) {
  std::array<uintptr_t, 64> frames{};
  const size_t count = profile_test_outer(frames);
  ASSERT_GE(count, 3U);
  ProgramSymbols symbols;
  EXPECT_EQ(symbols.name_of(frames[0]), "sluice::profile_test_inner");
  EXPECT_EQ(symbols.name_of(frames[1]), "sluice::profile_test_outer");
  EXPECT_THAT(symbols.name_of(frames[2]), EndsWith("TestBody"));
}

// Whatever the registers have: it reads nothing outside the stack.
TEST(WalkStack, EndsAtPointersThatAreNone) {
  std::array<uintptr_t, 8> frames{};
  std::array<uintptr_t, 64> stack{};
  const auto low = reinterpret_cast<uintptr_t>(stack.data()), end = low + sizeof stack;
  const auto pc = reinterpret_cast<uintptr_t>(&static_function);
  for (const uintptr_t frame : {uintptr_t{0}, uintptr_t{1}, low - 8, low + 1, end - 8, end, end + 8, UINTPTR_MAX - 7}) {
    EXPECT_EQ(walk_stack({.pc = pc, .frame = frame, .stack = low, .stack_end = end}, frames), 1U) << frame;
  }
  // A frame that names itself as its caller's.
  stack[2] = low + 16;
  stack[3] = pc;
  EXPECT_EQ(walk_stack({.pc = pc, .frame = low + 16, .stack = low, .stack_end = end}, frames), 2U);
  // No more than there is room for.
  for (size_t i = 0; i + 2 < stack.size(); i += 2) {
    stack[i] = reinterpret_cast<uintptr_t>(&stack[i + 2]);
    stack[i + 1] = pc;
  }
  EXPECT_EQ(walk_stack({.pc = pc, .frame = low, .stack = low, .stack_end = end}, frames), frames.size());
  // The end of the stack is not known.
  EXPECT_EQ(walk_stack({.pc = pc, .frame = low, .stack = low, .stack_end = 0}, frames), 1U);
}

}  // namespace
}  // namespace sluice
