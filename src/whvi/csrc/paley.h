// Made by paley.py from whvi/ops/orders.py, which explains it; a test compares the two. Do not edit.
template <int M>
struct Paley;
template <>
struct Paley<12> {
  static constexpr int kPairs = 2;
  static constexpr uint8_t pairs[][2] = {{0, 2}, {1, 3}};
  static constexpr uint8_t sums[][4] = {  // how many, then which
      {2, 1, 4},
      {1, 5},
      {1, 6},
      {2, 2, 4},
      {2, 0, 3},
      {3, 4, 5, 6},
  };
};
template <>
struct Paley<20> {
  static constexpr int kPairs = 7;
  static constexpr uint8_t pairs[][2] = {{0, 4}, {1, 3}, {2, 6}, {5, 7}, {0, 8}, {4, 8}, {10, 11}};
  static constexpr uint8_t sums[][5] = {  // how many, then which
      {1, 15},
      {3, 2, 7, 9},
      {3, 1, 5, 13},
      {3, 5, 6, 9},
      {2, 10, 12},
      {3, 2, 3, 14},
      {3, 3, 7, 13},
      {3, 1, 6, 14},
      {2, 11, 12},
      {4, 8, 9, 12, 15},
  };
};
template <>
struct Paley<28> {
  static constexpr int kPairs = 14;
  static constexpr uint8_t pairs[][2] = {{0, 2}, {1, 3}, {4, 6}, {5, 7}, {8, 10}, {9, 11}, {12, 14}, {0, 6}, {1, 2}, {4, 10}, {5, 11}, {7, 12}, {13, 15}, {16, 18}};
  static constexpr uint8_t sums[][6] = {  // how many, then which
      {3, 9, 19, 22},
      {3, 13, 22, 23},
      {3, 6, 19, 23},
      {2, 24, 25},
      {4, 0, 8, 14, 16},
      {4, 8, 9, 15, 21},
      {5, 2, 3, 9, 10, 16},
      {4, 3, 11, 15, 17},
      {3, 4, 12, 26},
      {4, 5, 12, 17, 20},
      {4, 1, 7, 18, 20},
      {3, 17, 21, 24},
      {4, 3, 8, 13, 18},
      {4, 17, 19, 25, 26},
  };
};
template <>
struct Paley<36> {
  static constexpr int kPairs = 23;
  static constexpr uint8_t pairs[][2] = {{0, 3}, {1, 4}, {2, 5}, {6, 9}, {7, 10}, {8, 11}, {12, 15}, {13, 16}, {4, 14}, {7, 14}, {17, 19}, {20, 22}, {0, 5}, {1, 23}, {2, 9}, {3, 13}, {6, 10}, {8, 15}, {11, 18}, {12, 16}, {14, 27}, {18, 24}, {21, 23}};
  static constexpr uint8_t sums[][7] = {  // how many, then which
      {3, 31, 34, 38},
      {4, 9, 10, 16, 37},
      {4, 15, 17, 33, 35},
      {4, 7, 19, 35, 36},
      {5, 6, 8, 12, 13, 27},
      {4, 18, 20, 26, 32},
      {4, 19, 21, 25, 34},
      {5, 3, 5, 15, 16, 28},
      {5, 0, 4, 20, 21, 36},
      {5, 1, 13, 21, 22, 29},
      {5, 1, 2, 12, 14, 28},
      {3, 31, 32, 39},
      {5, 3, 10, 22, 24, 25},
      {5, 9, 11, 23, 25, 29},
      {4, 5, 24, 30, 33},
      {6, 0, 2, 6, 11, 24, 26},
      {4, 8, 17, 26, 30},
      {4, 28, 37, 38, 39},
  };
};
