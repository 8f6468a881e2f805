#pragma once

/// The namespace of everything below kernels/cuda. Tests compile the same kernels a second time for
/// the processor (tests/emulator), under another name.
#ifndef FRUGAL_CUDA
#define FRUGAL_CUDA cuda
#endif
