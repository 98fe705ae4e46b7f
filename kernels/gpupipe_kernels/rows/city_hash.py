"""Constants of CityHash64 (version 1.0, by Pike and Alakuijala), and of CatBoost's combination of hashes."""

K2 = 0x9AE16A3B2F90404F
K3 = 0xC949D7C7509E6557
MIX = 0x9DDFEA08EB382D69
COMBINE = 0x4906BA494954CB65
