"""A student in the browser: logs in to a hub, fetches an exercise, solves, submits, reads."""

import re

LAB_SECONDS = 400  # a server starts, and JupyterLab loads, on a machine that tests share
PATIENCE = 60_000


class Student:
    """A student with a tab of a browser."""

    def __init__(self, page, address, name, password):
        self.page, self.name = page, name
        page.set_default_timeout(PATIENCE)
        page.goto(f"{address}/hub/spawn")
        page.fill("#username_input", name)
        page.fill("#password_input", password)
        page.click("#login_submit")
        page.wait_for_selector(".jp-Launcher", timeout=LAB_SECONDS * 1000)

    def menus(self):
        """Return the menus of JupyterLab."""
        return self.page.locator(".lm-MenuBar-itemLabel").all_inner_texts()

    def open_list(self):
        """Open nbgrader's list of assignments."""
        self.page.locator(".lm-MenuBar-item", has_text="Nbgrader").click()
        self.page.locator(".lm-Menu-item", has_text="Assignment List").click()

    def press(self, label):
        """Press a button in the list."""
        button = self.page.locator("button.btn").filter(
            has_text=re.compile(f"^{label}$"), visible=True
        )
        button.first.click()

    def fetch(self):
        """Fetch the exercise."""
        self.press("Fetch")
        self.page.locator("button.btn", has_text=re.compile("^Submit$")).first.wait_for()

    def submitted(self):
        """Look again, and return the lines of the list of what was submitted, the newest last."""
        with self.page.expect_response(re.compile("/assignments\\?")):
            self.page.locator("#refresh_assignments_list").click()
        self.page.locator("#submitted_assignments_list_loading").wait_for(state="hidden")
        rows = self.page.locator("#submitted_assignments_list .nested_list_item")
        return rows.all_inner_texts()

    def open_notebook(self, name):
        """Open a notebook in the folder of its exercise."""
        for label in (name, f"{name}.ipynb"):
            self.page.locator(".jp-DirListing-itemText").get_by_text(label, exact=True).dblclick()
        self.page.locator(".jp-Notebook .jp-CodeCell").first.wait_for()

    def open_tab(self, label):
        """Show what is open under this label."""
        self.page.locator(".lm-TabBar-tabLabel").get_by_text(label, exact=True).click()

    def write(self, begins, text):
        """Replace a cell that begins so, and run it."""
        cell = self.page.locator(".jp-CodeCell", has_text=begins).first
        cell.scroll_into_view_if_needed()
        cell.locator(".cm-content").click()
        self.page.keyboard.press("Control+a")
        self.page.keyboard.insert_text(text)
        self.page.keyboard.press("Control+Enter")

    def run(self, text):
        """Run the cell with a text, and return its output."""
        cell = self.page.locator(".jp-CodeCell", has_text=text).first
        cell.scroll_into_view_if_needed()
        cell.locator(".cm-content").click()
        self.page.keyboard.press("Control+Enter")
        output = cell.locator(".jp-OutputArea-output").first
        output.wait_for(timeout=LAB_SECONDS * 1000)
        return output

    def save(self):
        """Save the notebook."""
        self.page.keyboard.press("Escape")
        self.page.keyboard.press("Control+s")
        self.page.locator(".lm-DockPanel-tabBar .jp-mod-dirty").first.wait_for(state="detached")
