"""bench/growth: a cost that grows is found, one that does not is not, and plots are SVG with the names of their axes."""

import argparse
import importlib.machinery
import importlib.util
import pathlib
import sys
import unittest
import xml.etree.ElementTree as xml

PATH = pathlib.Path(__file__).resolve().parents[2] / "bench/growth"
LOADER = importlib.machinery.SourceFileLoader("growth", str(PATH))
growth = importlib.util.module_from_spec(importlib.util.spec_from_loader("growth", LOADER))
sys.modules["growth"] = growth
LOADER.exec_module(growth)

SIZES = (1, 10, 100)


def figures(cpu, instructions, busy=0.2):
    return {size: {"cpu": c, "instructions": i, "p99": 100, "busy": busy} for size, c, i in zip(SIZES, cpu, instructions)}


class Growth(unittest.TestCase):

    def problems(self, result, factor=0):
        return list(growth.problems(growth.AXES["routes"], result, argparse.Namespace(check=factor)))

    def test_what_grows_is_found(self):
        self.assertEqual(self.problems(figures((20, 20, 21), (1000, 1010, 1020))), [])
        (certain, text), = self.problems(figures((20, 20, 21), (1000, 2000, 11000)))
        self.assertTrue(certain)
        self.assertIn("routes: instructions grows 11.00 times", text)
        (certain, text), = self.problems(figures((20, 30, 90), (1000, 1000, 1000)))
        self.assertTrue(certain)
        self.assertIn("CPU us/request grows 4.50 times", text)

    def test_a_size_without_instructions_is_left_out(self):
        result = figures((20, 20, 20), (1000, 11000, 0))
        del result[SIZES[-1]]["instructions"]
        self.assertIn("grows 11.00 times", self.problems(result)[0][1])

    def test_a_factor_replaces_those_of_the_axis(self):
        result = figures((20, 20, 23), (1000, 1000, 1000))
        self.assertEqual(self.problems(result), [])
        self.assertEqual(len(self.problems(result, 1.1)), 1)

    def test_cpu_time_of_a_busy_machine_is_no_proof(self):
        (certain, _), = self.problems(figures((20, 30, 90), (1000, 1000, 1000), busy=0.97))
        self.assertFalse(certain)

    def test_each_axis_makes_its_smallest_and_its_largest_size(self):
        for axis in growth.AXES.values():
            for size in (axis.sizes[0], axis.sizes[-1]):
                setup = axis.build(size, 1000, 2000)
                self.assertLess(len(setup.config), 4 << 20, axis.name)
                self.assertTrue(all(head.endswith("\r\n\r\n") for head in setup.heads), axis.name)
        self.assertEqual(len(growth.AXES["endpoints"].build(10_000, 1, 2).config.split('"127.')), 10_000 + 2)
        self.assertEqual(growth.AXES["fields"].build(100, 1, 2).heads[0].count("\r\n"), 102)


class Plot(unittest.TestCase):

    def test_a_plot_has_names_and_all_points(self):
        text = growth.plot("Cost & more", "routes", "us", SIZES, {"cost": [5, 6, 50]})
        root = xml.fromstring(text)
        words = [each.text for each in root.iter("{http://www.w3.org/2000/svg}text")]
        for each in ("Cost & more", "routes", "us", "cost", "100", "0", "50"):
            self.assertIn(each, words)
        points = [(float(each.get("cx")), float(each.get("cy"))) for each in root.iter("{http://www.w3.org/2000/svg}circle")]
        self.assertEqual(len(points), 3)
        # A tenfold size is the same distance each time; a tenfold value is ten times as high above the axis.
        (x1, y1), (x2, _), (x3, y3) = points
        self.assertAlmostEqual(x2 - x1, x3 - x2, places=1)
        floor = growth.plot.__globals__["HEIGHT"] - growth.plot.__globals__["BOTTOM"]
        self.assertAlmostEqual((floor - y3) / (floor - y1), 10, delta=0.1)

    def test_one_size_and_zeros_are_no_error(self):
        xml.fromstring(growth.plot("t", "x", "y", (1,), {"a": [0]}))


if __name__ == "__main__":
    unittest.main()
