#include "harness/place/rank_gpus.h"

#include <gmock/gmock.h>

#include "kernels/support/error.h"

namespace frugal::harness {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

/// Those of a host, of which a process may use some.
std::vector<RankGpu> gpus_of(const std::string& letters) {
  std::vector<RankGpu> all;
  for (const char letter : letters)
    all.push_back({static_cast<int>(all.size()), "H200", std::string(1, letter)});
  return all;
}

/// The letters of those that the ranks take.
std::string taken(const std::vector<std::string>& hosts, const std::vector<std::string>& letters,
                  bool shared = false) {
  std::vector<std::vector<RankGpu>> usable;
  for (const std::string& each : letters) usable.push_back(gpus_of(each));
  std::string all;
  for (size_t rank = 0; const RankGpu& gpu : gpu_of_each(hosts, usable, shared)) {
    EXPECT_EQ(gpu, usable[rank++].at(static_cast<size_t>(gpu.index)));
    all += gpu.uuid;
  }
  return all;
}

TEST(RankGpus, AreThoseOfTheLocalRank) {
  EXPECT_EQ(taken({"n1", "n1", "n1"}, {"abcd", "abcd", "abcd"}), "abc");
  EXPECT_EQ(taken({"n1", "n2", "n1", "n2"}, {"ab", "AB", "ab", "AB"}), "aAbB");
  EXPECT_EQ(taken({"n1", "n1"}, {"ca", "ca"}), "ca");  // in CUDA's order, which the user may choose
}

/// As Slurm does, and who runs one program beside another.
TEST(RankGpus, MayBeShownToOneProcessAlone) {
  EXPECT_EQ(taken({"n1", "n1", "n1"}, {"c", "a", "b"}), "cab");
  EXPECT_EQ(taken({"n1", "n1", "n1"}, {"ab", "ab", "bc"}), "abc");
}

/// Whose names two hosts may share, as emulated ones do.
TEST(RankGpus, OfAnotherHostAreOthers) { EXPECT_EQ(taken({"n1", "n2"}, {"a", "a"}), "aa"); }

TEST(RankGpus, AreAsManyAsProcessesOnAHost) {
  EXPECT_THAT(
      [] {
        taken({"n1", "n2", "n2"}, {"ab", "a", "a"});
      },
      ThrowsMessage<InputError>(
          HasSubstr("2 processes were started on n2, and rank 2 finds no GPU there that no rank "
                    "before it has taken, of 1 that it may use")));
}

/// Who comes when all are taken has the first of those with the fewest ranks, on its own host.
TEST(RankGpus, MayBeSharedByRanksThatFindNoneLeft) {
  EXPECT_EQ(taken({"n1", "n1"}, {"a", "a"}, true), "aa");
  EXPECT_EQ(taken({"n1", "n1", "n1", "n1", "n1"}, {"ab", "ab", "ab", "ab", "ab"}, true), "ababa");
  EXPECT_EQ(taken({"n1", "n2", "n1", "n1"}, {"ab", "AB", "ab", "ab"}, true), "aAba");
  EXPECT_EQ(taken({"n1", "n1", "n1"}, {"a", "ab", "ab"}, true), "aba");
  EXPECT_THROW((taken({"n1"}, {""}, true)), InputError);
}

TEST(RankGpus, HaveAsManyRanksAsShareThem) {
  const std::vector<std::string> hosts = {"n1", "n1", "n2", "n1"};
  const std::vector<RankGpu> gpus = {
      {0, "H200", "a"}, {1, "H200", "b"}, {0, "H200", "a"}, {0, "H200", "a"}};
  using Ranks = std::map<std::pair<std::string, std::string>, int>;
  EXPECT_EQ(ranks_of_gpus(hosts, gpus),
            (Ranks{{{"n1", "a"}, 2}, {{"n1", "b"}, 1}, {{"n2", "a"}, 1}}));
}

}  // namespace
}  // namespace frugal::harness
