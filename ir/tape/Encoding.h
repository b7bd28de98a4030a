#pragma once

#include "ir/tape/Placement.h"
#include "ir/tape/Tape.h"

#include "mlir/IR/TensorEncoding.h"

#define GET_ATTRDEF_CLASSES
#include "ir/tape/Encoding.h.inc"
