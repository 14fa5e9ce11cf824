// SPDX-License-Identifier: Apache-2.0
//
// This repository's own communicator.h, in a folder with the name of one of
// Shoal's: neither may be taken for the other.

#ifndef COMM_COMMUNICATOR_H_
#define COMM_COMMUNICATOR_H_

class Communicator {
 public:
  static const char* WhatItIs() { return "radio"; }
};

#endif  // COMM_COMMUNICATOR_H_
