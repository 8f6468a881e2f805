"""A browser without a screen, in which a page is used as a reader would."""

import json
import shutil
import unittest

try:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.actions.wheel_input import ScrollOrigin
    from selenium.webdriver.common.by import By
except ImportError:
    webdriver = None

WIDE, NARROW = (1280, 860), (360, 780)


def required():
    """Paths of the browser and of its driver, or the reason why there is no test."""
    if webdriver is None:
        raise unittest.SkipTest("python3-selenium is not installed; scripts/install.sh --checks")
    browser, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not browser or not driver:
        raise unittest.SkipTest("chromium or chromium-driver is not installed; scripts/install.sh --checks")
    return browser, driver


class Browser:
    def __init__(self, size=WIDE):
        browser, driver = required()
        options = webdriver.ChromeOptions()
        options.binary_location = browser
        for argument in ("--headless=new", "--no-sandbox", "--disable-gpu"):
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.driver = webdriver.Chrome(service=Service(driver), options=options)
        self.resize(size)
        self.scheme("light")

    def open(self, path):
        self.driver.get(path.as_uri())

    def quit(self):
        self.driver.quit()

    def resize(self, size):
        self.tell("Emulation.setDeviceMetricsOverride",
                  {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": False})

    def scheme(self, name):
        """What the system prefers: light or dark."""
        self.tell("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": name}]})

    def tell(self, command, parameters=None):
        return self.driver.execute_cdp_cmd(command, parameters or {})

    def run(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def all(self, selector):
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def one(self, selector):
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def text(self, selector):
        return self.run("return document.querySelector(arguments[0]).innerText", selector)

    def keys(self, *keys):
        for key in keys:
            ActionChains(self.driver).send_keys(key).perform()

    def into_view(self, element):
        self.run("arguments[0].scrollIntoView({block: 'center'})", element)
        self.settle()

    def settle(self):
        """Until what has been asked for is drawn."""
        self.run("return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def hover(self, element, x=0, y=0):
        """Over its middle, or so many pixels from there."""
        self.into_view(element)
        ActionChains(self.driver).move_to_element_with_offset(element, x, y).perform()

    def click(self, element):
        self.into_view(element)
        element.click()

    def drag(self, element, pixels):
        self.into_view(element)
        ActionChains(self.driver).click_and_hold(element).move_by_offset(pixels, 0).release().perform()

    def wheel(self, element, pixels):
        self.into_view(element)
        ActionChains(self.driver).scroll_from_origin(ScrollOrigin.from_element(element), 0, pixels).perform()

    def focused(self):
        return self.driver.switch_to.active_element

    def said(self):
        """What is on the console since it was last asked."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def requested(self):
        """Addresses that were asked for since it was last asked, but for those of data within the page."""
        events = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        addresses = [event["params"]["request"]["url"] for event in events
                     if event["method"] == "Network.requestWillBeSent"]
        return [address for address in addresses if not address.startswith("data:")]
