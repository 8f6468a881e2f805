#pragma once
#include <gtest/gtest.h>

#include <csignal>

/// The statement touches memory that is not its to touch.
#ifdef __SANITIZE_ADDRESS__
#define EXPECT_FAULT(statement) EXPECT_DEATH(statement, "SEGV")
#else
#define EXPECT_FAULT(statement) EXPECT_EXIT(statement, ::testing::KilledBySignal(SIGSEGV), "")
#endif
