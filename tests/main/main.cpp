#include "tests/main/left_out.h"

int main(int argc, char** argv) { return frugal::testing::run_tests(argc, argv); }
